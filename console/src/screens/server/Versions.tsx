import { Anchor, Button, Group, SegmentedControl, Select, Stack, Text, Title } from "@mantine/core";

import { useLive } from "../../api/live";
import { usePaging, useParam, useParams } from "../../app/url";
import { DiffStatus, type ServerVersion } from "../../gen/countersign/registry/v1/review_pb";
import { McpServerService } from "../../gen/countersign/registry/v1/mcp_server_service_pb";
import type { McpServer } from "../../gen/countersign/registry/v1/types_pb";
import { CopyId } from "../../parts/Copy";
import { EmptyState } from "../../parts/EmptyState";
import { Escaped } from "../../parts/Escaped";
import { type Column, List, ListSkeleton, Pager } from "../../parts/List";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";
import { count, short } from "../../parts/words";
import { Changes } from "../diff/Changes";
import { ItemDiffs } from "../diff/ItemDiffs";

const columns: Column<ServerVersion>[] = [
  { key: "number", header: "Version", cell: (v) => <Text size="sm" fw={600}>{String(v.number)}{v.current && ", current"}{v.approved && ", approved"}</Text> },
  { key: "seen", header: "First seen", cell: (v) => <Time at={v.firstSeenTime} /> },
  { key: "says", header: "It calls itself", cell: (v) => <Escaped text={`${v.reported?.name ?? ""} ${v.reported?.version ?? ""}`} max={100} /> },
  { key: "offers", header: "Offers", cell: (v) => <>{count(v.tools, "tool")}, {count(v.resources, "resource")}, {count(v.prompts, "prompt")}{v.quarantinedItems > 0 && `, ${v.quarantinedItems} in quarantine`}</> },
  { key: "approval", header: "Approved", cell: (v) => (v.approval ? <>by <Escaped text={v.approval.approvedBy} /> <Time at={v.approval.approveTime} /></> : "never") },
  { key: "digest", header: "Snapshot", cell: (v) => <CopyId id={v.snapshotDigest} shown={short(v.snapshotDigest)} label="Copy the digest of the snapshot" /> },
];

/** What a server was at, numbered, and how any two of them differ. */
export function Versions({ of: s }: { of: McpServer }) {
  const paging = usePaging();
  const [params, set] = useParams();
  const { data, error, isPlaceholderData, refetch } = useLive(McpServerService.method.listSnapshots, { serverId: s.serverId, pageSize: 50, pageToken: paging.token });
  if (error) return <Problem error={error} retry={() => void refetch()} />;
  if (!data) return <ListSkeleton />;
  if (data.versions.length === 0) return <EmptyState kind="never" title="No discovery has succeeded yet" />;
  const kept = [...new Map(data.versions.filter((v) => v.kept).map((v) => [v.snapshotDigest, { value: v.snapshotDigest, label: `${v.number} (${short(v.snapshotDigest)})` }])).values()];
  const from = params.get("from") || s.approvedSnapshotDigest || kept[1]?.value || "";
  const to = params.get("to") || s.snapshotDigest;
  return (
    <Stack>
      <List caption="Versions" columns={columns} rows={data.versions} rowKey={(v) => String(v.number)} stale={isPlaceholderData} />
      <Pager paging={paging} next={data.nextPageToken} shown={data.versions.length} total={data.totalSize} noun="version" />
      <Title order={2} size="h4">How two of them differ</Title>
      <Group align="flex-end" gap="xs">
        <Select label="From" data={kept} value={from || null} onChange={(v) => set({ from: v ?? "", to, tab: "versions" })} w={240} />
        <Select label="To" data={kept} value={to || null} onChange={(v) => set({ from, to: v ?? "", tab: "versions" })} w={240} />
        <Button variant="default" onClick={() => set({ from: to, to: from, tab: "versions" })}>Swap</Button>
      </Group>
      {from && to ? <Diff server={s.serverId} from={from} to={to} /> : <Text size="sm">There is only one version so far.</Text>}
    </Stack>
  );
}

/** A diff by its address: two digests. */
function Diff({ server, from, to }: { server: string; from: string; to: string }) {
  const [view, setView] = useParam("view", "unified", true);
  const { data, error } = useLive(McpServerService.method.getDiff, { serverId: server, fromDigest: from, toDigest: to, pageSize: 1000 }, { every: 1e9 });
  if (error) return <Problem error={error} />;
  if (!data) return <ListSkeleton />;
  const d = data.diff;
  const unchanged = data.items.filter((i) => i.status === DiffStatus.UNCHANGED).length;
  const changed = data.items.length - unchanged;
  if (changed === 0 && !d?.serverChanges.length) return <EmptyState kind="empty" title="They are the same" />;
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <Text size="sm">
          Tools: {d?.tools?.added ?? 0} added, {d?.tools?.removed ?? 0} removed, {d?.tools?.renamed ?? 0} renamed, {d?.tools?.changed ?? 0} changed, {d?.tools?.unchanged ?? 0} unchanged.
          {" "}<Anchor size="sm" href={location.href}>Address of this diff</Anchor>
        </Text>
        <SegmentedControl size="xs" aria-label="How texts are compared" data={[{ value: "unified", label: "Unified" }, { value: "split", label: "Split" }]} value={view} onChange={setView} />
      </Group>
      {d && d.serverChanges.length > 0 && <section className="item"><Text fw={600} size="sm">The server itself</Text><Changes of={d.serverChanges} split={view === "split"} /></section>}
      <ItemDiffs of={data.items} split={view === "split"} />
      {data.nextPageToken && <Text size="sm">There is more than is shown: {count(data.totalSize, "item")} in all. countersign server diff shows all of it.</Text>}
    </Stack>
  );
}
