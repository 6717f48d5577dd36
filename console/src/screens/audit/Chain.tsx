import { Alert, Button, Code, Group, List, Text } from "@mantine/core";
import { IconShieldCheck, IconShieldX } from "@tabler/icons-react";

import { useLive } from "../../api/live";
import { useMutation } from "@connectrpc/connect-query";
import { AuditService } from "../../gen/countersign/registry/v1/audit_service_pb";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";
import { count } from "../../parts/words";

/** How far the trail is sealed and signed, and whether it is whole, which one asks for. */
export function Chain() {
  const { data } = useLive(AuditService.method.listAuditCheckpoints, { pageSize: 1 });
  const verify = useMutation(AuditService.method.verifyAudit);
  const last = data?.checkpoints[0];
  const found = verify.data;
  return (
    <>
      <Group gap="sm">
        <Text size="sm">
          {!data ? "Asking for checkpoints" : last ? (
            <>Sealed through No. {last.count.toLocaleString()} by checkpoint {last.number.toLocaleString()}, signed <Time at={last.time} /> with the key <Code>{last.keyId}</Code></>
          ) : "No checkpoint is signed yet"}
        </Text>
        <Button size="compact-sm" variant="default" loading={verify.isPending} onClick={() => verify.mutate({})}>Verify the chain</Button>
      </Group>
      <Problem error={verify.error} title="The chain cannot be verified" />
      {found && (found.sound ? (
        <Alert color="green" variant="outline" icon={<IconShieldCheck />} title="The chain is whole">
          {count(found.events, "event")} and {count(found.checkpoints, "checkpoint")} were looked at{found.more && ", and there are more; countersign audit verify looks at all"}. {count(found.unsealed, "event is", "events are")} not sealed yet.
        </Alert>
      ) : (
        <Alert color="red" variant="outline" icon={<IconShieldX />} title={`The chain has ${count(BigInt(found.faults.length) + found.moreFaults, "fault")}`}>
          <List size="sm">
            {found.faults.map((f, i) => <List.Item key={i}><Code>{f.kind}</Code> {f.position > 0n && `at No. ${f.position.toLocaleString()}`} {f.detail}</List.Item>)}
          </List>
        </Alert>
      ))}
    </>
  );
}
