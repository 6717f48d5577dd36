import { Alert, Anchor, Code, Text } from "@mantine/core";
import { IconAlertTriangle, IconCircleCheck } from "@tabler/icons-react";
import { Link } from "react-router";

import { SideEffectClass } from "../../gen/countersign/registry/v1/types_pb";
import type { Unfit } from "../../gen/countersign/registry/v1/policy_service_pb";
import { Escaped } from "../../parts/Escaped";
import { type Column, List } from "../../parts/List";
import { classWord, count } from "../../parts/words";

const columns: Column<Unfit>[] = [
  { key: "server", header: "Server", cell: (u) => <Anchor component={Link} size="sm" to={`/servers/${encodeURIComponent(u.serverName || u.serverId)}`}>{u.serverName || u.serverId}</Anchor> },
  {
    key: "item", header: "Item", cell: (u) => (
      <>
        <Escaped text={u.name} />
        <Text size="xs" c="dimmed">{u.kind}{u.declaredClass !== SideEffectClass.UNSPECIFIED && `, approved as ${classWord[u.declaredClass]}`}</Text>
      </>
    ),
  },
  { key: "why", header: "Why", cell: (u) => <><Code>{u.reason}</Code> <Escaped text={u.detail} /></> },
];

/** What would lose its approval under another policy. */
export function Unfits({ of, none }: { of: Unfit[]; none: string }) {
  if (of.length === 0) return <Alert color="green" variant="outline" role="status" icon={<IconCircleCheck />} title={none} />;
  return (
    <>
      <Alert color="red" variant="outline" role="status" icon={<IconAlertTriangle />} title={`It would unbind ${count(of.length, "item")}`}>They stop being callable at once and have to be approved again.</Alert>
      <List caption="What would be unbound" columns={columns} rows={of} rowKey={(u) => `${u.serverId} ${u.kind} ${u.name}`} />
    </>
  );
}
