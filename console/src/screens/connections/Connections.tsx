import { Anchor, Button, Text } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useState } from "react";
import { Link } from "react-router";

import { useLive } from "../../api/live";
import { usePaging } from "../../app/url";
import { useMay } from "../../auth/me";
import { type Connection, ConnectionService } from "../../gen/countersign/registry/v1/connection_service_pb";
import { CopyCommand } from "../../parts/Copy";
import { EmptyState } from "../../parts/EmptyState";
import { Escaped } from "../../parts/Escaped";
import { type Column, List, ListSkeleton, Pager } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";
import { count } from "../../parts/words";
import { NewConnection } from "./NewConnection";
import { authWord } from "./words";

const columns: Column<Connection>[] = [
  {
    key: "name", header: "Connection", cell: (c) => (
      <>
        <Anchor component={Link} to={`/connections/${encodeURIComponent(c.name)}`} fw={600}>{c.name}</Anchor>
        <Text size="xs" c="dimmed"><Escaped text={c.spec?.baseUrl ?? ""} /></Text>
        {c.spec?.description && <Text size="xs" c="dimmed"><Escaped text={c.spec.description} max={200} /></Text>}
      </>
    ),
  },
  { key: "version", header: "Version", cell: (c) => c.version, className: "number" },
  { key: "auth", header: "As whom", cell: (c) => authWord[c.spec?.authKind ?? 0] },
  { key: "users", header: "Used by", cell: (c) => <Anchor component={Link} size="sm" to={`/servers?connection=${encodeURIComponent(c.name)}`}>{count(c.users, "server")}</Anchor> },
  { key: "warnings", header: "To know", cell: (c) => (c.warnings.length ? c.warnings.join("; ") : "") },
  { key: "made", header: "This version", cell: (c) => <><Time at={c.createTime} /><Text size="xs" c="dimmed"><Escaped text={c.createdBy} /></Text></> },
];

/** How servers are reached and as whom. Secrets are references everywhere. */
export default function Connections() {
  const paging = usePaging();
  const may = useMay();
  const [making, setMaking] = useState(false);
  const { data, error, isPlaceholderData, refetch } = useLive(ConnectionService.method.listConnections, { pageSize: 50, pageToken: paging.token });
  return (
    <Page title="Connections" actions={may(ConnectionService.method.createConnection) && <Button leftSection={<IconPlus size={16} />} onClick={() => setMaking(true)}>New connection</Button>}>
      <Problem error={error} retry={() => void refetch()} />
      {!data && !error && <ListSkeleton />}
      {data && (data.connections.length ? (
        <>
          <List caption="Connections" columns={columns} rows={data.connections} rowKey={(c) => c.name} stale={isPlaceholderData} />
          <Pager paging={paging} next={data.nextPageToken} shown={data.connections.length} total={data.totalSize} noun="connection" />
        </>
      ) : (
        <EmptyState kind="empty" title="There is no connection yet">
          <Text size="sm">Servers that are reached by their URL alone need none. One with credentials, by the command line:</Text>
          <CopyCommand command="countersign connection create wiki --url https://wiki.example/mcp --header Authorization=env:WIKI_BEARER" />
        </EmptyState>
      ))}
      {making && <NewConnection onClose={() => setMaking(false)} />}
    </Page>
  );
}
