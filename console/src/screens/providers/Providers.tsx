import { Anchor, Button, Text } from "@mantine/core";
import { IconCircleCheck, IconCircleDashed, IconPlus } from "@tabler/icons-react";
import { useState } from "react";
import { Link } from "react-router";

import { useLive } from "../../api/live";
import { usePaging } from "../../app/url";
import { useMay } from "../../auth/me";
import { type ToolProvider, ToolProviderService } from "../../gen/countersign/registry/v1/tool_provider_service_pb";
import { Chip } from "../../parts/Chip";
import { CopyCommand } from "../../parts/Copy";
import { EmptyState } from "../../parts/EmptyState";
import { Escaped } from "../../parts/Escaped";
import { type Column, List, ListSkeleton, Pager } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";
import { count } from "../../parts/words";
import { NewProvider } from "./NewProvider";
import { RefreshChip } from "./RefreshChip";
import { familyWord } from "./words";

const columns: Column<ToolProvider>[] = [
  {
    key: "name", header: "Provider", cell: (p) => (
      <>
        <Anchor component={Link} to={`/providers/${encodeURIComponent(p.name)}`} fw={600}>{p.name}</Anchor>
        <Text size="xs" c="dimmed">{familyWord[p.family]}</Text>
        {p.description && <Text size="xs" c="dimmed"><Escaped text={p.description} max={200} /></Text>}
      </>
    ),
  },
  { key: "enabled", header: "State", cell: (p) => (p.enabled ? <Chip tone="good" icon={IconCircleCheck}>enabled</Chip> : <Chip tone="mute" icon={IconCircleDashed}>disabled</Chip>) },
  {
    key: "refresh", header: "Last refresh", cell: (p) => (
      <>
        <RefreshChip status={p.refresh?.status} />
        <Text size="xs" c="dimmed"><Time at={p.refresh?.finishTime} otherwise="" /></Text>
        {p.refresh?.message && <Text size="sm"><Escaped text={p.refresh.message} max={200} /></Text>}
      </>
    ),
  },
  { key: "brings", header: "Brings", cell: (p) => <>{count(p.serverCount, "server")}, {count(p.contributionCount, "tool")}</> },
];

/** Where tools come from: each MCP server, and extensions that bring several. */
export default function Providers() {
  const paging = usePaging();
  const may = useMay();
  const [making, setMaking] = useState(false);
  const { data, error, isPlaceholderData, refetch } = useLive(ToolProviderService.method.listToolProviders, { pageSize: 50, pageToken: paging.token });
  return (
    <Page title="Providers" actions={may(ToolProviderService.method.createToolProvider) && <Button leftSection={<IconPlus size={16} />} onClick={() => setMaking(true)}>New extension</Button>}>
      <Problem error={error} retry={() => void refetch()} />
      {!data && !error && <ListSkeleton />}
      {data && (data.providers.length ? (
        <>
          <List caption="Providers" columns={columns} rows={data.providers} rowKey={(p) => p.providerId} stale={isPlaceholderData} />
          <Pager paging={paging} next={data.nextPageToken} shown={data.providers.length} total={data.totalSize} noun="provider" />
        </>
      ) : (
        <EmptyState kind="empty" title="No provider brings tools yet">
          <Text size="sm">Each server that is registered is one. An extension brings several:</Text>
          <CopyCommand command="countersign provider create utilities --aep https://ext.example --extension countersign.utilities --auth oauth2" />
        </EmptyState>
      ))}
      {making && <NewProvider onClose={() => setMaking(false)} />}
    </Page>
  );
}
