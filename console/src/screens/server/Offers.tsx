import { Code, Switch, Text } from "@mantine/core";
import { IconCircleCheck, IconCircleX, IconLock } from "@tabler/icons-react";

import { useAction } from "../../api/action";
import { useLive } from "../../api/live";
import { useMay } from "../../auth/me";
import { McpServerService } from "../../gen/countersign/registry/v1/mcp_server_service_pb";
import { ToolCatalogService } from "../../gen/countersign/registry/v1/tool_catalog_service_pb";
import { DiscoveryStatus, type McpServer, type Prompt, type Resource, type Tool } from "../../gen/countersign/registry/v1/types_pb";
import { Chip, ClassChip } from "../../parts/Chip";
import { EmptyState } from "../../parts/EmptyState";
import { Escaped } from "../../parts/Escaped";
import { type Column, List, ListSkeleton } from "../../parts/List";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";

function Bound({ yes, why, quarantine }: { yes: boolean; why: string; quarantine: string }) {
  if (quarantine) return <><Chip tone="bad" icon={IconLock}>in quarantine</Chip><div><Code>{quarantine}</Code></div></>;
  return yes ? <Chip tone="good" icon={IconCircleCheck}>bound</Chip> : <><Chip tone="mute" icon={IconCircleX}>not bound</Chip>{why && <div><Code>{why}</Code></div>}</>;
}

const named = (name: string, title: string, text: string) => (
  <>
    <Text size="sm" fw={600} component="span"><Escaped text={name} /></Text>
    {title && title !== name && <Text size="sm"><Escaped text={title} max={200} /></Text>}
    {text && <Text size="xs" c="dimmed"><Escaped text={text} max={400} /></Text>}
  </>
);

const resources: Column<Resource>[] = [
  { key: "uri", header: "Resource", cell: (r) => named(r.uri, r.title, r.description) },
  { key: "kind", header: "Kind", cell: (r) => (r.template ? "template" : "resource") },
  { key: "bound", header: "State", cell: (r) => <Bound yes={r.bound} why={r.unboundReason} quarantine={r.quarantineReason} /> },
  { key: "as", header: "As", cell: (r) => [r.sourceId, r.classification, r.scope].filter(Boolean).join(", ") },
];

const prompts: Column<Prompt>[] = [
  { key: "name", header: "Prompt", cell: (p) => named(p.name, p.title, p.description) },
  { key: "bound", header: "State", cell: (p) => <Bound yes={p.bound} why={p.unboundReason} quarantine={p.quarantineReason} /> },
  { key: "as", header: "For", cell: (p) => p.skillId || p.workflowStepRef },
];

/** What a server offers now: tools, resources or prompts, and what of it is bound. */
export function Offers({ of: s, kind }: { of: McpServer; kind: "tools" | "resources" | "prompts" }) {
  const { data, error, refetch } = useLive(McpServerService.method.getMcpCapabilities, { serverId: s.serverId });
  const may = useMay();
  const enable = useAction(ToolCatalogService.method.setToolEnabled, { done: (a) => `${a.tool?.name} is ${a.tool?.enabled ? "enabled" : "disabled"}` });
  const tools: Column<Tool>[] = [
    { key: "name", header: "Tool", cell: (t) => <>{named(t.name, t.title, t.description)}<Text size="xs" c="dimmed">{t.toolId}</Text></> },
    { key: "class", header: "Class", cell: (t) => <ClassChip value={t.declaredClass} /> },
    {
      key: "state", header: "Callable", cell: (t) => (
        <>
          {t.callable ? <Chip tone="good" icon={IconCircleCheck}>callable</Chip> : <Chip tone={t.quarantineReason ? "bad" : "mute"} icon={t.quarantineReason ? IconLock : IconCircleX}>{t.quarantineReason ? "in quarantine" : t.available ? "not callable" : "gone"}</Chip>}
          {(t.quarantineReason || t.denialReason) && <div><Code>{t.quarantineReason || t.denialReason}</Code> <Text size="xs" component="span"><Escaped text={t.quarantineDetail || t.denialDetail} max={200} /></Text></div>}
        </>
      ),
    },
    {
      key: "enabled", header: "Enabled", cell: (t) => (
        <Switch aria-label={`${t.name} enabled`} checked={t.enabled} disabled={!may(ToolCatalogService.method.setToolEnabled) || enable.isPending} onChange={(e) => enable.mutate({ toolId: t.toolId, enabled: e.currentTarget.checked })} />
      ),
    },
    { key: "seen", header: "First seen", cell: (t) => <Time at={t.firstSeenTime} /> },
  ];
  if (error) return <Problem error={error} retry={() => void refetch()} />;
  if (!data) return <ListSkeleton />;
  const rows = data[kind];
  if (rows.length === 0) {
    if (!s.snapshotDigest) return <EmptyState kind="never" title={s.discovery?.status === DiscoveryStatus.FAILED ? "Unknown: no discovery has succeeded yet" : "Nobody has looked yet"} />;
    return <EmptyState kind="empty" title={data.capabilities.includes(kind) ? `It offers no ${kind}` : `It does not say that it has ${kind}`} />;
  }
  return (
    <>
      <Problem error={enable.error} />
      {kind === "tools" && <List caption="Tools" columns={tools} rows={data.tools} rowKey={(t) => t.name} />}
      {kind === "resources" && <List caption="Resources" columns={resources} rows={data.resources} rowKey={(r) => r.uri} />}
      {kind === "prompts" && <List caption="Prompts" columns={prompts} rows={data.prompts} rowKey={(p) => p.name} />}
    </>
  );
}
