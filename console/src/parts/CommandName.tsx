import { Autocomplete } from "@mantine/core";
import { useQuery } from "@connectrpc/connect-query";

import { InstallationService } from "../gen/countersign/registry/v1/installation_service_pb";

/** Names a command of the operator's list: one that the API knows of, or any other, as workers may know more. */
export function CommandName({ value, onChange }: { value: string; onChange: (name: string) => void }) {
  const { data } = useQuery(InstallationService.method.getInstallation, {});
  const known = data?.commands ?? [];
  return (
    <Autocomplete
      label="Command" required placeholder="filesystem" data={known} value={value} onChange={onChange}
      description={data && known.length === 0 ? "A name of the operator's list of commands; the API was given none to offer" : "A name of the operator's list of commands"}
    />
  );
}
