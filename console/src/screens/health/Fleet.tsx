import { durationMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Anchor, Card, Code, Group, SegmentedControl, SimpleGrid, Text, Title } from "@mantine/core";
import { Link } from "react-router";

import { useLive } from "../../api/live";
import { useParam } from "../../app/url";
import type { HealthCount } from "../../gen/countersign/registry/v1/health_pb";
import { McpServerService } from "../../gen/countersign/registry/v1/mcp_server_service_pb";
import { HealthLevel, type Health as HealthOf } from "../../gen/countersign/registry/v1/types_pb";
import { Chart } from "../../parts/Chart";
import { Health, StateChip } from "../../parts/Chip";
import { EmptyState } from "../../parts/EmptyState";
import { type Column, List, ListSkeleton } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { count } from "../../parts/words";

const words: Record<HealthLevel, string> = {
  [HealthLevel.UNSPECIFIED]: "unknown", [HealthLevel.HEALTHY]: "healthy", [HealthLevel.DEGRADED]: "degraded", [HealthLevel.UNHEALTHY]: "unhealthy", [HealthLevel.UNKNOWN]: "unknown",
};

const columns: Column<HealthCount>[] = [
  { key: "level", header: "How well", cell: (h) => <Health health={{ level: h.level, probing: 0 } as HealthOf} summary={false} /> },
  { key: "reason", header: "Why", cell: (h) => <Code>{h.reason}</Code> },
  { key: "servers", header: "Servers", cell: (h) => <Anchor component={Link} size="sm" to={`/servers?health=${words[h.level]}`}>{h.servers.toLocaleString()}</Anchor>, className: "number" },
];

const periods = [{ value: "86400", label: "A day" }, { value: "604800", label: "7 days" }, { value: "2592000", label: "30 days" }];

/** How the fleet is now, by reason and the worst first, and how it was. */
export default function Fleet() {
  const [period, setPeriod] = useParam("period", "86400", true);
  const { data, error, refetch } = useLive(McpServerService.method.getFleetHealth, { period: { seconds: BigInt(Number.parseInt(period, 10) || 86_400) } });
  const level = (l: HealthLevel) => data?.health.filter((h) => h.level === l).reduce((n, h) => n + h.servers, 0) ?? 0;
  const levels = [HealthLevel.UNHEALTHY, HealthLevel.DEGRADED, HealthLevel.UNKNOWN, HealthLevel.HEALTHY];
  const times = data?.history.map((w) => (w.window ? timestampMs(w.window) / 1000 : 0)) ?? [];
  return (
    <Page title="Health">
      <Problem error={error} retry={() => void refetch()} />
      {!data && !error && <ListSkeleton />}
      {data && data.servers === 0 && <EmptyState kind="empty" title="There is no live server" />}
      {data && data.servers > 0 && (
        <>
          <SimpleGrid cols={{ base: 2, md: 4 }}>
            {levels.map((l) => (
              <Card withBorder key={l} data-level={words[l]}>
                <Text size="xl" fw={700} component={Link} to={`/servers?health=${words[l]}`} td="none">{level(l).toLocaleString()}</Text>
                <Health health={{ level: l, probing: 0 } as HealthOf} summary={false} />
              </Card>
            ))}
          </SimpleGrid>
          <Group gap="lg">
            {data.states.map((s) => <span key={s.state}><StateChip state={s.state} /> {s.servers.toLocaleString()}</span>)}
            <Text size="sm">{count(data.servers, "live server")}</Text>
          </Group>
          <section>
            <Title order={2} size="h4" mb="xs">Why</Title>
            <List caption="Reasons" columns={columns} rows={data.health} rowKey={(h) => `${h.level} ${h.reason}`} />
          </section>
          <section>
            <Group justify="space-between" mb="xs">
              <Title order={2} size="h4">Over time</Title>
              <SegmentedControl size="xs" aria-label="Period" data={periods} value={period} onChange={setPeriod} />
            </Group>
            {data.history.length === 0 ? <EmptyState kind="never" title="Nothing was probed in this time" /> : (
              <SimpleGrid cols={{ base: 1, lg: 2 }}>
                <Card withBorder>
                  <Chart label="Servers by what their probes said" times={times} series={[
                    { label: "well", tone: "good", values: data.history.map((w) => w.ok) },
                    { label: "handshake failed", tone: "bad", values: data.history.map((w) => w.failed) },
                    { label: "list cannot be read", tone: "warn", values: data.history.map((w) => w.listFaults) },
                    { label: "withheld", tone: "mute", values: data.history.map((w) => w.withheld) },
                  ]} />
                </Card>
                <Card withBorder>
                  <Chart label="How long good probes took" times={times} series={[
                    { label: "half at most, ms", tone: "calm", values: data.history.map((w) => (w.latencyP50 ? durationMs(w.latencyP50) : null)) },
                    { label: "nine of ten at most, ms", tone: "warn", values: data.history.map((w) => (w.latencyP90 ? durationMs(w.latencyP90) : null)) },
                  ]} />
                </Card>
              </SimpleGrid>
            )}
          </section>
        </>
      )}
    </Page>
  );
}
