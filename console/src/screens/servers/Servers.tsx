import { Button, Group, Select, Stack, Switch, TextInput } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useDebouncedCallback } from "@mantine/hooks";
import { useEffect, useState } from "react";
import { Link } from "react-router";

import { useLive } from "../../api/live";
import { useParams, usePaging } from "../../app/url";
import { useMay } from "../../auth/me";
import { McpServerService } from "../../gen/countersign/registry/v1/mcp_server_service_pb";
import { EmptyState } from "../../parts/EmptyState";
import { List, ListSkeleton, Pager } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { Search } from "../../parts/Search";
import { columns } from "./columns";
import { FirstRun } from "./FirstRun";
import { filterOf, views } from "./views";

const words = {
  state: ["registered", "verified", "active", "degraded", "retired"],
  health: ["healthy", "degraded", "unhealthy", "unknown"],
};

const narrowing = ["view", "q", "state", "health", "owner", "connection", "retired"];

/** Every server of the tenant: where it stands in its life, and how well it is. */
export default function Servers() {
  const [params, set] = useParams();
  const paging = usePaging();
  const may = useMay();
  const get = (name: string) => params.get(name) ?? "";
  const fleet = useLive(McpServerService.method.getFleetHealth, { parts: 1 });
  const { data, error, isPlaceholderData, refetch } = useLive(McpServerService.method.listMcpServers, {
    filter: filterOf(params), orderBy: get("order"), showRetired: get("retired") === "true", pageSize: 50, pageToken: paging.token,
  });
  const filtered = narrowing.some((name) => params.has(name));
  const clear = () => set(Object.fromEntries(narrowing.map((name) => [name, ""])));
  return (
    <Page title="Servers" actions={may(McpServerService.method.registerMcpServer) && <Button component={Link} to="/register" leftSection={<IconPlus size={16} />}>Register a server</Button>}>
      <Group gap="xs" role="group" aria-label="Saved views">
        {views.map((v) => (
          <Button key={v.key} size="compact-md" variant={get("view") === v.key ? "filled" : "default"} aria-pressed={get("view") === v.key} onClick={() => set({ view: v.key })} data-view={v.key || "all"}>
            {v.label}{fleet.data && ` (${v.count(fleet.data).toLocaleString()})`}
          </Button>
        ))}
      </Group>
      <Group gap="xs" align="flex-end" role="search" aria-label="Filters">
        <Search label="Search by name" value={get("q")} onChange={(q) => set({ q })} />
        <Select aria-label="State" placeholder="any state" clearable data={words.state} value={get("state") || null} onChange={(v) => set({ state: v ?? "" })} w={150} />
        <Select aria-label="Health" placeholder="any health" clearable data={words.health} value={get("health") || null} onChange={(v) => set({ health: v ?? "" })} w={150} />
        <Owner value={get("owner")} onChange={(owner) => set({ owner })} />
        <Select aria-label="Order" data={[{ value: "", label: "by name" }, { value: "update_time desc", label: "last changed first" }, { value: "create_time desc", label: "newest first" }]} value={get("order")} allowDeselect={false} onChange={(v) => set({ order: v ?? "" })} w={180} />
        <Switch label="Retired too" checked={get("retired") === "true"} onChange={(e) => set({ retired: e.currentTarget.checked ? "true" : "" })} />
        {filtered && <Button variant="subtle" onClick={clear}>Clear the filters</Button>}
      </Group>
      <Problem error={error} retry={() => void refetch()} />
      {!data && !error && <ListSkeleton />}
      {data && (data.servers.length ? (
        <Stack gap="xs">
          <List caption="Servers" columns={columns} rows={data.servers} rowKey={(s) => s.serverId} stale={isPlaceholderData} />
          <Pager paging={paging} next={data.nextPageToken} shown={data.servers.length} total={data.totalSize} noun="server" />
        </Stack>
      ) : filtered ? (
        <EmptyState kind="no-match" title="No server matches"><Button variant="default" onClick={clear}>Clear the filters</Button></EmptyState>
      ) : <FirstRun />)}
    </Page>
  );
}

function Owner({ value, onChange }: { value: string; onChange: (v: string) => void }) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  const tell = useDebouncedCallback(onChange, 300);
  return <TextInput aria-label="Owner" placeholder="any owner" value={typed} w={150} onChange={(e) => { setTyped(e.currentTarget.value); tell(e.currentTarget.value.trim()); }} />;
}
