import { ConnectionAuthKind } from "../../gen/countersign/registry/v1/connection_service_pb";

export const authWord: Record<ConnectionAuthKind, string> = {
  [ConnectionAuthKind.UNSPECIFIED]: "Unknown",
  [ConnectionAuthKind.NONE]: "None",
  [ConnectionAuthKind.HEADERS]: "Header fields",
  [ConnectionAuthKind.CLIENT_CREDENTIALS]: "Client credentials",
  [ConnectionAuthKind.PRIVATE_KEY_JWT]: "Private key (JWT)",
  [ConnectionAuthKind.TOKEN_EXCHANGE]: "Token exchange",
  [ConnectionAuthKind.WORKLOAD_IDENTITY]: "Workload identity",
};
