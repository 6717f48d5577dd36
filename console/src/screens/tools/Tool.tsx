import { Anchor, Button, Card, Code, Group, SimpleGrid, Stack, Switch, Text, TextInput, Title } from "@mantine/core";
import { IconCircleCheck, IconCircleX } from "@tabler/icons-react";
import { useState } from "react";
import { Link, useParams } from "react-router";

import { useAction } from "../../api/action";
import { quote } from "../../api/filter";
import { useLive } from "../../api/live";
import { problemOf } from "../../api/problem";
import { useParam } from "../../app/url";
import { useMay } from "../../auth/me";
import { McpRegistryService } from "../../gen/countersign/registry/v1/mcp_registry_service_pb";
import { ToolCatalogService } from "../../gen/countersign/registry/v1/tool_catalog_service_pb";
import { ClassChip } from "../../parts/Chip";
import { CopyMenu } from "../../parts/Copy";
import { EmptyState } from "../../parts/EmptyState";
import { Escaped } from "../../parts/Escaped";
import { List, ListSkeleton } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";
import { short } from "../../parts/words";

const up = [{ label: "Tools", to: "/tools" }];

/** One tool: whether it may be called, condition by condition, and by which agents. */
export default function Tool() {
  const { id = "" } = useParams();
  const may = useMay();
  const { data, error, refetch } = useLive(ToolCatalogService.method.getTool, { toolId: id });
  const enable = useAction(ToolCatalogService.method.setToolEnabled, { done: (a) => (a.tool?.enabled ? "It is enabled" : "It is disabled") });
  if (error && problemOf(error).notFound) return <Page title={id} up={up}><EmptyState kind="missing" title="There is no such tool" /></Page>;
  const t = data?.tool;
  return (
    <Page title={id} up={up} actions={t && <CopyMenu id={t.toolId} command={`countersign tools resolve ${t.toolId} --explain`} />}>
      <Problem error={error ?? enable.error} retry={() => void refetch()} />
      {!t && !error && <ListSkeleton />}
      {t && (
        <SimpleGrid cols={{ base: 1, lg: 2 }}>
          <Card withBorder>
            <Switch mb="sm" label="Enabled" checked={t.enabled} disabled={!may(ToolCatalogService.method.setToolEnabled) || enable.isPending} onChange={(e) => enable.mutate({ toolId: t.toolId, enabled: e.currentTarget.checked })} />
            <dl className="facts">
              <dt>Server</dt><dd><Anchor component={Link} size="sm" to={`/servers/${encodeURIComponent(t.serverName)}`}>{t.serverName}</Anchor></dd>
              <dt>Its name there</dt><dd><Escaped text={t.name} /></dd>
              {t.title && <><dt>Title</dt><dd><Escaped text={t.title} /></dd></>}
              {t.description && <><dt>It says</dt><dd style={{ whiteSpace: "pre-wrap" }}><Escaped text={t.description} max={2000} /></dd></>}
              <dt>Class</dt><dd><ClassChip value={t.declaredClass} /></dd>
              <dt>Descriptor</dt><dd>{t.descriptorId ? <Anchor component={Link} size="sm" to={`/descriptors?id=${encodeURIComponent(t.descriptorId)}`}>{`${t.descriptorId} ${t.descriptorVersion}`}</Anchor> : "none"}</dd>
              <dt>Contract</dt><dd className="mono">{short(t.digests?.contract ?? "")}</dd>
              <dt>First seen</dt><dd><Time at={t.firstSeenTime} /></dd>
              {t.approvalEndTime && <><dt>Approval ends</dt><dd><Time at={t.approvalEndTime} /></dd></>}
            </dl>
          </Card>
          <Stack>
            {may(McpRegistryService.method.explainTool) ? <Explained id={t.toolId} /> : <Card withBorder><Text size="sm">{t.callable ? "Callable now." : <>Not callable: <Code>{t.denialReason}</Code> {t.denialDetail}</>}</Text></Card>}
            <Assignments id={t.toolId} />
          </Stack>
        </SimpleGrid>
      )}
    </Page>
  );
}

/** Every condition of a call as a check list: whether it holds, since when, and who can change it. */
function Explained({ id }: { id: string }) {
  const [agent, setAgent] = useParam("agent");
  const [typed, setTyped] = useState(agent);
  const { data, error } = useLive(McpRegistryService.method.explainTool, { toolId: id, agent });
  return (
    <Card withBorder component="section">
      <Title order={2} size="h4" mb="xs">May it be called?</Title>
      <form onSubmit={(e) => { e.preventDefault(); setAgent(typed.trim()); }}>
        <Group align="flex-end" gap="xs" mb="sm">
          <TextInput label="By which agent" description="Empty: whoever asks" value={typed} onChange={(e) => setTyped(e.currentTarget.value)} />
          <Button type="submit" variant="default">Ask</Button>
        </Group>
      </form>
      <Problem error={error} />
      {data && (
        <>
          <Text fw={600} size="sm" role="status">{data.callable ? "Yes, it is callable." : <>No: <Code>{data.reason}</Code> {data.message}</>}</Text>
          {data.nextStep && <Text size="sm">Next: {data.nextStep}</Text>}
          <ul className="checks">
            {data.conditions.map((c) => (
              <li key={c.reason}>
                <span aria-hidden style={{ color: c.holds ? "var(--good)" : "var(--bad)" }}>{c.holds ? <IconCircleCheck size={18} /> : <IconCircleX size={18} />}</span>
                <div>
                  <Text size="sm"><span className="unseen-text">{c.holds ? "holds: " : "does not hold: "}</span><Escaped text={c.value || c.reason.replaceAll("_", " ")} max={200} />{!c.holds && <> <Code>{c.reason}</Code></>}</Text>
                  {!c.holds && c.nextStep && <Text size="xs">{c.nextStep}{c.roles.length > 0 && ` (${c.roles.join(", ")})`}</Text>}
                  {c.sinceTime && <Text size="xs" c="dimmed">since <Time at={c.sinceTime} /></Text>}
                </div>
              </li>
            ))}
          </ul>
        </>
      )}
    </Card>
  );
}

/** Which agents have the tool. */
function Assignments({ id }: { id: string }) {
  const may = useMay();
  const m = ToolCatalogService.method;
  const { data, error } = useLive(m.listToolAssignments, { filter: `tool_id = ${quote(id)}`, pageSize: 200 });
  const [agent, setAgent] = useState("");
  const [workspace, setWorkspace] = useState("");
  const assign = useAction(m.createToolAssignment, { done: "It is assigned", then: () => setAgent("") });
  const remove = useAction(m.deleteToolAssignment, { done: "The assignment is taken back" });
  return (
    <Card withBorder component="section">
      <Title order={2} size="h4" mb="xs">Agents that have it</Title>
      <Problem error={error ?? assign.error ?? remove.error} />
      {data && (data.assignments.length ? (
        <List caption="Assignments" rows={data.assignments} rowKey={(a) => a.assignmentId} columns={[
          { key: "agent", header: "Agent", cell: (a) => <Escaped text={a.agent} /> },
          { key: "where", header: "Workspace", cell: (a) => <Escaped text={a.workspace || "everywhere"} /> },
          { key: "state", header: "Callable", cell: (a) => (a.callable ? "yes" : <Code>{a.denialReason}</Code>) },
          { key: "do", header: <span className="unseen-text">Action</span>, label: "", cell: (a) => may(m.deleteToolAssignment) && <Button size="compact-sm" variant="default" onClick={() => remove.mutate({ assignmentId: a.assignmentId })}>Take back</Button> },
        ]} />
      ) : <Text size="sm">No agent has it by an assignment. Assignments count where an agent is named.</Text>)}
      {may(m.createToolAssignment) && (
        <form onSubmit={(e) => { e.preventDefault(); assign.mutate({ agent: agent.trim(), toolId: id, workspace: workspace.trim() }); }}>
          <Group align="flex-end" gap="xs" mt="sm">
            <TextInput label="Agent" required value={agent} onChange={(e) => setAgent(e.currentTarget.value)} w={180} />
            <TextInput label="Workspace" placeholder="everywhere" value={workspace} onChange={(e) => setWorkspace(e.currentTarget.value)} w={180} />
            <Button type="submit" variant="default" loading={assign.isPending}>Assign</Button>
          </Group>
        </form>
      )}
    </Card>
  );
}
