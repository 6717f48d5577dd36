import { useQuery } from "@connectrpc/connect-query";

import { IdentityService } from "../gen/countersign/registry/v1/identity_service_pb";

/** Who is signed in, and what they may do. */
export function useMe() {
  return useQuery(IdentityService.method.whoAmI, {}, { staleTime: 60_000 });
}

/** What useMay is asked about: a generated method, such as McpServerService.method.retireMcpServer. */
interface Method {
  name: string;
  parent: { name: string };
}

/**
 * Whether the person may call a method: it decides what is offered. What is allowed is the API's to say. False until
 * it is known.
 */
export function useMay(): (method: Method) => boolean {
  const { data } = useMe();
  return (method) => data?.permissions.includes(`${method.parent.name}/${method.name}`) ?? false;
}
