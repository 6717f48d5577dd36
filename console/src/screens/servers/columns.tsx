import { Anchor, Text } from "@mantine/core";
import { Link } from "react-router";

import { type McpServer, McpTransport, ReviewStatus } from "../../gen/countersign/registry/v1/types_pb";
import { Health, ReviewChip, StateChip } from "../../parts/Chip";
import { Escaped } from "../../parts/Escaped";
import type { Column } from "../../parts/List";
import { Time } from "../../parts/Time";
import { transportWord } from "../../parts/words";

/** Where a server is, for people: its URL, its connection or its command. */
export function placeOf(s: McpServer): string {
  return s.transport === McpTransport.STDIO ? `command ${s.commandRef}` : s.endpointUrl;
}

export const columns: Column<McpServer>[] = [
  {
    key: "name", header: "Server", cell: (s) => (
      <>
        <Anchor component={Link} fw={600} to={`/servers/${encodeURIComponent(s.name)}`}>{s.name}</Anchor>
        <Text size="xs" c="dimmed"><Escaped text={placeOf(s)} max={120} /></Text>
        <Text size="xs" c="dimmed">{transportWord[s.transport]}{s.owner && <>, of <Escaped text={s.owner} max={80} /></>}</Text>
      </>
    ),
  },
  {
    key: "state", header: "State", cell: (s) => (
      <>
        <StateChip state={s.state} />
        {s.review?.status === ReviewStatus.PENDING && <div><Anchor component={Link} size="sm" to={`/servers/${encodeURIComponent(s.name)}/review`}><ReviewChip status={s.review.status} /></Anchor></div>}
      </>
    ),
  },
  { key: "health", header: "Health", cell: (s) => <Health health={s.health} /> },
  {
    key: "tools", header: "Tools", cell: (s) => (
      <>
        <div>{s.counts?.boundTools ?? 0} of {s.counts?.tools ?? 0} bound</div>
        {s.discovery?.succeedTime && s.discovery.changedTools + s.discovery.newTools > 0 && (
          <Text size="xs" c="dimmed">last time {s.discovery.newTools} new, {s.discovery.changedTools} changed</Text>
        )}
      </>
    ),
  },
  { key: "seen", header: "Last answered", cell: (s) => <Time at={s.lastHandshakeAt} otherwise="never" /> },
];
