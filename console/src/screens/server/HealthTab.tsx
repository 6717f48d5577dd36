import { durationMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Card, Code, Group, SegmentedControl, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconCircleCheck, IconCircleX, IconHourglass } from "@tabler/icons-react";

import { useLive } from "../../api/live";
import { usePaging, useParam } from "../../app/url";
import { type Probe, ProbeOutcome } from "../../gen/countersign/registry/v1/health_pb";
import { McpServerService } from "../../gen/countersign/registry/v1/mcp_server_service_pb";
import type { McpServer } from "../../gen/countersign/registry/v1/types_pb";
import { Chart } from "../../parts/Chart";
import { Chip } from "../../parts/Chip";
import { EmptyState } from "../../parts/EmptyState";
import { Escaped } from "../../parts/Escaped";
import { type Column, List, ListSkeleton, Pager } from "../../parts/List";
import { Problem } from "../../parts/Problem";
import { took } from "../../parts/Steps";
import { Time } from "../../parts/Time";
import { count, probingWord } from "../../parts/words";

function Outcome({ of: p }: { of: Probe }) {
  switch (p.outcome) {
    case ProbeOutcome.OK: return <Chip tone="good" icon={IconCircleCheck}>well</Chip>;
    case ProbeOutcome.FAILED: return <Chip tone="bad" icon={IconCircleX}>the handshake failed</Chip>;
    case ProbeOutcome.LIST_FAULT: return <Chip tone="warn" icon={IconAlertTriangle}>the list cannot be read</Chip>;
    case ProbeOutcome.DEFERRED: return <Chip tone="mute" icon={IconHourglass}>it asked for patience</Chip>;
    default: return <Chip tone="mute" icon={IconHourglass}>withheld: we could not ask</Chip>;
  }
}

const columns: Column<Probe>[] = [
  { key: "when", header: "When", cell: (p) => <Time at={p.time} /> },
  { key: "outcome", header: "Outcome", cell: (p) => <><Outcome of={p} />{p.reason && <div><Code>{p.reason}</Code> <Escaped text={p.message} max={300} /></div>}</> },
  { key: "took", header: "Took", cell: (p) => p.duration && took(p.duration), className: "number" },
  { key: "attempts", header: "Attempts", cell: (p) => p.attempts, className: "number" },
];

const periods = [{ value: "86400", label: "A day" }, { value: "604800", label: "7 days" }, { value: "2592000", label: "30 days" }];

/** How a server is and was: by its probes. */
export default function HealthTab({ of: s }: { of: McpServer }) {
  const [period, setPeriod] = useParam("period", "86400", true);
  const paging = usePaging();
  const health = useLive(McpServerService.method.getMcpServerHealth, { serverId: s.serverId, period: { seconds: BigInt(Number.parseInt(period, 10) || 86_400) } });
  const probes = useLive(McpServerService.method.listProbes, { serverId: s.serverId, pageSize: 200, pageToken: paging.token });
  if (health.error ?? probes.error) return <Problem error={health.error ?? probes.error} />;
  if (!health.data || !probes.data) return <ListSkeleton />;
  const u = health.data.uptime;
  const list = probes.data.probes;
  if (list.length === 0) {
    return <EmptyState kind="never" title="Never probed">{health.data.health && <Text size="sm">{probingWord[health.data.health.probing] || "Active and degraded servers are probed."}</Text>}</EmptyState>;
  }
  const old = [...list].reverse();
  const times = old.map((p) => (p.window ? timestampMs(p.window) / 1000 : 0));
  return (
    <Stack>
      <Group justify="space-between">
        <Text size="sm">
          {u?.share === undefined ? "No probe counts in this time" : `${(u.share * 100).toFixed(u.share === 1 ? 0 : 2)} % of ${count(u.good + u.failed, "probe")} were good`}
          {u && u.withheld > 0 && `; ${u.withheld} tell nothing of it`}
          {u?.latencyP50 && u.latencyP90 && `; half took at most ${took(u.latencyP50)}, nine of ten ${took(u.latencyP90)}`}
          {u?.flapping && "; it comes and goes"}
        </Text>
        <SegmentedControl size="xs" aria-label="Period" data={periods} value={period} onChange={setPeriod} />
      </Group>
      <Card withBorder>
        <Chart
          label="Probes: how long the good ones took, and those that failed" times={times}
          series={[
            { label: "good, ms", tone: "good", values: old.map((p) => (p.outcome === ProbeOutcome.OK && p.duration ? durationMs(p.duration) : null)) },
            { label: "failed, ms", tone: "bad", values: old.map((p) => (p.outcome === ProbeOutcome.FAILED || p.outcome === ProbeOutcome.LIST_FAULT ? (p.duration ? durationMs(p.duration) : 0) : null)), points: true },
          ]}
        />
      </Card>
      <List caption="Probes" columns={columns} rows={list} rowKey={(p) => String(p.window?.seconds)} />
      <Pager paging={paging} next={probes.data.nextPageToken} shown={list.length} noun="probe" />
    </Stack>
  );
}
