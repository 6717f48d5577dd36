import { Anchor, Button, Code, Group, Select, Stack, Text } from "@mantine/core";
import { IconCircleCheck, IconCircleX, IconLock } from "@tabler/icons-react";
import { useState } from "react";
import { Link } from "react-router";

import { all, quote } from "../../api/filter";
import { useLive } from "../../api/live";
import { useParams, usePaging } from "../../app/url";
import { useMay } from "../../auth/me";
import { ToolCatalogService } from "../../gen/countersign/registry/v1/tool_catalog_service_pb";
import type { Tool } from "../../gen/countersign/registry/v1/types_pb";
import { Chip, ClassChip } from "../../parts/Chip";
import { EmptyState } from "../../parts/EmptyState";
import { Escaped } from "../../parts/Escaped";
import { type Column, List, ListSkeleton, Pager } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { Search } from "../../parts/Search";
import { SetEnabled } from "./SetEnabled";

const columns: Column<Tool>[] = [
  {
    key: "tool", header: "Tool", cell: (t) => (
      <>
        <Anchor component={Link} fw={600} to={`/tools/${encodeURIComponent(t.toolId)}`}><Escaped text={t.toolId} max={200} /></Anchor>
        {t.description && <Text size="xs" c="dimmed"><Escaped text={t.description} max={200} /></Text>}
      </>
    ),
  },
  { key: "server", header: "Server", cell: (t) => <Anchor component={Link} size="sm" to={`/servers/${encodeURIComponent(t.serverName)}`}>{t.serverName}</Anchor> },
  { key: "class", header: "Class", cell: (t) => <ClassChip value={t.declaredClass} /> },
  {
    key: "state", header: "Callable", cell: (t) => (
      <>
        {t.callable ? <Chip tone="good" icon={IconCircleCheck}>callable</Chip> : t.quarantineReason ? <Chip tone="bad" icon={IconLock}>in quarantine</Chip> : <Chip tone="mute" icon={IconCircleX}>not callable</Chip>}
        {(t.quarantineReason || t.denialReason) && <div><Code>{t.quarantineReason || t.denialReason}</Code></div>}
      </>
    ),
  },
  { key: "enabled", header: "Enabled", cell: (t) => (t.enabled ? "yes" : "no") },
];

const facetNames = ["server", "class", "callable", "bound", "enabled", "available", "quarantined", "requires_approval", "provider"];

/** Every tool of every server; what is filtered can be enabled and disabled at once. */
export default function Tools() {
  const [params, set] = useParams();
  const paging = usePaging();
  const may = useMay();
  const [switching, setSwitching] = useState<boolean>();
  const get = (name: string) => params.get(name) ?? "";
  const filter = all(...facetNames.map((name) => get(name) && `${name} = ${quote(get(name))}`));
  const chosen = { filter, search: get("q") };
  const facets = useLive(ToolCatalogService.method.listToolFacets, { ...chosen, facets: facetNames });
  const { data, error, isPlaceholderData, refetch } = useLive(ToolCatalogService.method.listTools, { ...chosen, pageSize: 50, pageToken: paging.token });
  const filtered = get("q") !== "" || filter !== "";
  const clear = () => set({ q: "", ...Object.fromEntries(facetNames.map((n) => [n, ""])) });
  return (
    <Page title="Tools" actions={may(ToolCatalogService.method.setToolsEnabled) && data && data.totalSize > 0 && (
      <>
        <Button variant="default" onClick={() => setSwitching(true)}>Enable what is shown</Button>
        <Button variant="default" onClick={() => setSwitching(false)}>Disable what is shown</Button>
      </>
    )}>
      <Group gap="xs" align="flex-end" role="search" aria-label="Filters">
        <Search label="Search the tools" value={get("q")} onChange={(q) => set({ q })} />
        {facetNames.map((name) => {
          const values = facets.data?.facets.find((f) => f.field === name)?.values ?? [];
          const data = values.filter((v) => v.value !== "").map((v) => ({ value: v.value, label: `${v.value} (${v.count.toLocaleString()})` }));
          if (get(name) && !data.some((d) => d.value === get(name))) data.push({ value: get(name), label: get(name) });
          return <Select key={name} aria-label={name} placeholder={name.replaceAll("_", " ")} clearable searchable={name === "server"} data={data} value={get(name) || null} onChange={(v) => set({ [name]: v ?? "" })} w={name === "server" ? 180 : 150} />;
        })}
        {filtered && <Button variant="subtle" onClick={clear}>Clear the filters</Button>}
      </Group>
      <Problem error={error ?? facets.error} retry={() => void refetch()} />
      {!data && !error && <ListSkeleton />}
      {data && (data.tools.length ? (
        <Stack gap="xs">
          <List caption="Tools" columns={columns} rows={data.tools} rowKey={(t) => `${t.serverId} ${t.toolId}`} stale={isPlaceholderData} />
          <Pager paging={paging} next={data.nextPageToken} shown={data.tools.length} total={data.totalSize} noun="tool" />
        </Stack>
      ) : filtered ? <EmptyState kind="no-match" title="No tool matches"><Button variant="default" onClick={clear}>Clear the filters</Button></EmptyState>
        : <EmptyState kind="empty" title="There is no tool yet"><Text size="sm">Tools come with servers: <Anchor component={Link} size="sm" to="/servers">register one</Anchor>.</Text></EmptyState>)}
      {switching !== undefined && <SetEnabled chosen={chosen} enabled={switching} onClose={() => setSwitching(undefined)} />}
    </Page>
  );
}
