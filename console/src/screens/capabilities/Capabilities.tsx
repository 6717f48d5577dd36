import { Anchor, Button, Code, Group, Stack, Text, TextInput, Title } from "@mantine/core";
import { IconCircleCheck, IconCircleX } from "@tabler/icons-react";
import { useEffect, useState } from "react";
import { Link } from "react-router";

import { useLive } from "../../api/live";
import { problemOf } from "../../api/problem";
import { useParam } from "../../app/url";
import { type CapabilityReport, type CapabilityState, McpServerService } from "../../gen/countersign/registry/v1/mcp_server_service_pb";
import { Chip } from "../../parts/Chip";
import { EmptyState } from "../../parts/EmptyState";
import { Escaped } from "../../parts/Escaped";
import { type Column, List, ListSkeleton } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";
import { count } from "../../parts/words";

/** What a server can do by the capability table and the last look at it, and what keeps it from the rest. */
export default function Capabilities() {
  const [server, setServer] = useParam("server");
  const [typed, setTyped] = useState(server);
  useEffect(() => setTyped(server), [server]);
  return (
    <Page title="Capability report">
      <form onSubmit={(e) => { e.preventDefault(); setServer(typed.trim()); }}>
        <Group align="flex-end" gap="xs">
          <TextInput data-search label="Server (id or name)" value={typed} onChange={(e) => setTyped(e.currentTarget.value)} w={280} />
          <Button type="submit" variant="default">Show</Button>
        </Group>
      </form>
      {server ? <Report server={server} /> : <EmptyState kind="empty" title="Whose report?"><Text size="sm">Name a server. Its page has a link here, too.</Text></EmptyState>}
    </Page>
  );
}

function Report({ server }: { server: string }) {
  const { data, error, isPlaceholderData, refetch } = useLive(McpServerService.method.getCapabilityReport, { serverId: server });
  if (error) {
    if (problemOf(error).notFound) return <EmptyState kind="missing" title="There is no such server" />;
    return <Problem error={error} retry={() => void refetch()} />;
  }
  const r = data?.report;
  if (!r) return <ListSkeleton />;
  return <div className={isPlaceholderData ? "stale" : undefined}><Facts of={r} /></div>;
}

const columns: Column<CapabilityState>[] = [
  { key: "feature", header: "Capability", cell: (c) => <><Escaped text={c.feature} /><Text size="xs" c="dimmed">{c.key}</Text></> },
  {
    key: "state", header: "State", cell: (c) => (
      <>
        {c.available ? <Chip tone="good" icon={IconCircleCheck}>available</Chip> : <Chip tone="bad" icon={IconCircleX}>not available</Chip>}
        {c.blockerText && <Text size="sm"><Escaped text={c.blockerText} /></Text>}
        {c.note && <Text size="xs" c="dimmed"><Escaped text={c.note} /></Text>}
      </>
    ),
  },
  { key: "since", header: "Since", cell: (c) => c.sinceVersion },
  { key: "needs", header: "Needs", cell: (c) => [...c.requiredTools, ...c.requiredArguments.map((a) => `${a.tool}(${a.argument})`)].map((n) => <div key={n}><Code><Escaped text={n} /></Code></div>) },
  { key: "gates", header: "Switches off", cell: (c) => (c.available ? "" : c.gatedTools.map((n) => <div key={n}><Code><Escaped text={n} /></Code></div>)) },
];

function Facts({ of: r }: { of: CapabilityReport }) {
  const rows = [...r.capabilities].sort((a, b) => Number(a.available) - Number(b.available));
  return (
    <Stack>
      <dl className="facts">
        <dt>Server</dt><dd><Anchor component={Link} size="sm" to={`/servers/${encodeURIComponent(r.serverName)}`}>{r.serverName}</Anchor></dd>
        <dt>It calls itself</dt><dd>{r.reported?.name ? <Escaped text={`${r.reported.name} ${r.reported.version}`} /> : "nothing"}</dd>
        <dt>Protocol</dt><dd>{r.protocolVersion}</dd>
        <dt>Taken for</dt><dd>{r.knownServers.map((k) => k.title).join(", ") || "nothing that the capability table knows"}</dd>
        <dt>Looked at</dt><dd><Time at={r.lookTime} />{r.doubt && <>; this look tells nothing: <Escaped text={r.doubt} /></>}</dd>
        <dt>Tools</dt><dd>{count(r.toolCount, "tool")}, {r.quarantinedTools.length} in quarantine, {r.foreignTools.length} passed on from others</dd>
      </dl>
      <section>
        <Title order={2} size="h4" mb="xs">Capabilities</Title>
        {rows.length ? <List caption="Capabilities" columns={columns} rows={rows} rowKey={(c) => `${c.knownServerId} ${c.key}`} />
          : <EmptyState kind="unknown" title="The capability table has no row about this server"><Text size="sm">Its tools are not limited by it.</Text></EmptyState>}
      </section>
      {r.quarantinedTools.length > 0 && (
        <section>
          <Title order={2} size="h4" mb="xs">In quarantine</Title>
          <List caption="Tools in quarantine" rows={r.quarantinedTools} rowKey={(t) => t.name} columns={[{ key: "name", header: "Tool", cell: (t) => <Escaped text={t.name} /> }, { key: "why", header: "Why", cell: (t) => <Code>{t.quarantineReason}</Code> }]} />
        </section>
      )}
    </Stack>
  );
}
