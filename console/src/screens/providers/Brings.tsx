import { Anchor, Code, Text, Title } from "@mantine/core";
import { IconAlertTriangle, IconCircleCheck } from "@tabler/icons-react";
import { Link } from "react-router";

import type { ProviderContribution, ProviderServer, ToolProvider } from "../../gen/countersign/registry/v1/tool_provider_service_pb";
import { McpServerState } from "../../gen/countersign/registry/v1/types_pb";
import { Chip, StateChip } from "../../parts/Chip";
import { Escaped } from "../../parts/Escaped";
import { type Column, List } from "../../parts/List";

const servers: Column<ProviderServer>[] = [
  { key: "name", header: "Server", cell: (s) => (s.serverName ? <Anchor component={Link} fw={600} to={`/servers/${encodeURIComponent(s.serverName)}`}>{s.serverName}</Anchor> : <Escaped text={s.externalId} />) },
  { key: "url", header: "URL", cell: (s) => <Escaped text={s.endpointUrl} /> },
  {
    key: "state", header: "State", cell: (s) => (
      <>
        {s.state !== McpServerState.UNSPECIFIED && <StateChip state={s.state} />}
        {s.reason && <div><Code>{s.reason}</Code> <Escaped text={s.message} /></div>}
      </>
    ),
  },
];

export const contributions: Column<ProviderContribution>[] = [
  {
    key: "tool", header: "Tool", cell: (c) => (
      <>
        <span><Escaped text={c.displayName || c.mcpTool} /></span>
        <Text size="xs" c="dimmed"><Escaped text={c.toolId || c.contributionId} /></Text>
      </>
    ),
  },
  { key: "server", header: "Server", cell: (c) => <Escaped text={c.serverName || c.externalServerId} /> },
  {
    key: "state", header: "State", cell: (c) => c.available ? <Chip tone="good" icon={IconCircleCheck}>there</Chip> : (
      <>
        <Chip tone="warn" icon={IconAlertTriangle}>not there</Chip>
        {c.reason && <div><Code>{c.reason}</Code> <Escaped text={c.message} /></div>}
      </>
    ),
  },
];

/** The servers and tools that a provider brings; what has an issue first. */
export function Brings({ of: p }: { of: ToolProvider }) {
  const tools = [...p.contributions].sort((a, b) => Number(a.available) - Number(b.available));
  return (
    <>
      {p.servers.length > 0 && (
        <section>
          <Title order={2} size="h4" mb="xs">Servers</Title>
          <List caption="Servers of the provider" columns={servers} rows={p.servers} rowKey={(s) => s.externalId + s.serverId} />
        </section>
      )}
      {tools.length > 0 && (
        <section>
          <Title order={2} size="h4" mb="xs">Tools</Title>
          <List caption="Tools of the provider" columns={contributions} rows={tools} rowKey={(c) => c.contributionId} />
        </section>
      )}
    </>
  );
}
