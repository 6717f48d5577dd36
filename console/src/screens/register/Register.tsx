import { Alert, Button, Card, Group, List, SegmentedControl, Select, SimpleGrid, Stack, TagsInput, Text, Textarea, TextInput, Title } from "@mantine/core";
import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { useNavigate } from "react-router";

import { useAction } from "../../api/action";
import { useParam } from "../../app/url";
import { useMay } from "../../auth/me";
import { ConnectionService } from "../../gen/countersign/registry/v1/connection_service_pb";
import { McpServerService } from "../../gen/countersign/registry/v1/mcp_server_service_pb";
import { PolicyService } from "../../gen/countersign/registry/v1/policy_service_pb";
import { McpAuthentication, McpDirection, McpTransport } from "../../gen/countersign/registry/v1/types_pb";
import { CommandName } from "../../parts/CommandName";
import { EmptyState } from "../../parts/EmptyState";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { authenticationWord } from "../../parts/words";
import { TestReport } from "../connections/TestReport";

const ways = [McpAuthentication.OAUTH2_PROTECTED_RESOURCE, McpAuthentication.WORKLOAD_IDENTITY, McpAuthentication.NONE_EXCEPTION];
const up = [{ label: "Servers", to: "/servers" }];

/** Registers a server by URL, connection or command, and says what will happen then. */
export default function Register() {
  const may = useMay();
  if (!may(McpServerService.method.registerMcpServer)) {
    return <Page title="Register a server" up={up}><EmptyState kind="withheld" title="An AssetMaintainer or a PlatformAdmin registers servers" /></Page>;
  }
  return <Form />;
}

function Form() {
  const [by, setBy] = useParam("by", "url");
  const [connection, setConnection] = useParam("connection");
  const [of, setOf] = useState({ name: "", endpointUrl: "", commandRef: "", exceptionReason: "", owner: "", description: "" });
  const [way, setWay] = useState<McpAuthentication>(McpAuthentication.OAUTH2_PROTECTED_RESOURCE);
  const [policy, setPolicy] = useState("default");
  const [labels, setLabels] = useState<string[]>([]);
  const navigate = useNavigate();
  const connections = useQuery(ConnectionService.method.listConnections, { pageSize: 200 });
  const policies = useQuery(PolicyService.method.listPolicies, { pageSize: 200 });
  const register = useAction(McpServerService.method.registerMcpServer, {
    done: "It is registered; its first discovery is under way", then: ({ server }) => void navigate(`/servers/${encodeURIComponent(server!.name)}`),
  });
  const test = useAction(ConnectionService.method.testConnection);
  const field = (name: keyof typeof of) => ({ value: of[name], onChange: (e: { currentTarget: { value: string } }) => setOf({ ...of, [name]: e.currentTarget.value }) });
  const submit = () => register.mutate({
    name: of.name.trim(), direction: McpDirection.CONSUMED, protocolVersion: "2026-07-28", governancePolicyRef: policy,
    transport: by === "command" ? McpTransport.STDIO : McpTransport.STREAMABLE_HTTP, authentication: way,
    exceptionReason: way === McpAuthentication.NONE_EXCEPTION ? of.exceptionReason.trim() : "", owner: of.owner.trim(), description: of.description.trim(),
    labels: Object.fromEntries(labels.map((l) => { const [k = "", ...v] = l.split("="); return [k.trim(), v.join("=").trim()]; })),
    ...(by === "url" ? { endpointUrl: of.endpointUrl.trim() } : by === "connection" ? { endpointRef: connection } : { commandRef: of.commandRef.trim() }),
  });
  return (
    <Page title="Register a server" up={up}>
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        <form onSubmit={(e) => { e.preventDefault(); submit(); }}>
          <Stack>
            <SegmentedControl aria-label="How it is reached" value={by} onChange={setBy} data={[{ value: "url", label: "By URL" }, { value: "connection", label: "By connection" }, { value: "command", label: "By command" }]} />
            <TextInput label="Name" required description="a-z, 0-9, - and _; tools are called NAME.TOOL, and it never changes" {...field("name")} />
            {by === "url" && <TextInput label="URL" required type="url" placeholder="https://wiki.example/mcp" {...field("endpointUrl")} />}
            {by === "connection" && (
              <>
                <Select label="Connection" required searchable data={connections.data?.connections.map((c) => ({ value: c.name, label: `${c.name} · ${c.spec?.baseUrl ?? ""}` })) ?? []} value={connection || null} onChange={(v) => { setConnection(v ?? ""); test.reset(); }} nothingFoundMessage="There is no such connection" />
                <Group><Button variant="default" disabled={!connection} loading={test.isPending} onClick={() => test.mutate({ name: connection })}>Test the connection</Button></Group>
                <Problem error={test.error} title="It could not be tried" />
                {test.data?.report && <TestReport of={test.data.report} />}
              </>
            )}
            {by === "command" && <CommandName value={of.commandRef} onChange={(commandRef) => setOf({ ...of, commandRef })} />}
            <Select label="As whom" allowDeselect={false} data={ways.map((w) => ({ value: String(w), label: authenticationWord[w] }))} value={String(way)} onChange={(v) => setWay(Number(v))} />
            {way === McpAuthentication.NONE_EXCEPTION && <TextInput label="Why without authentication" required description="It is an exception that a PlatformAdmin approves, and that ends" {...field("exceptionReason")} />}
            <Select label="Policy" allowDeselect={false} data={[...new Set(["default", ...(policies.data?.policies.map((p) => p.name) ?? [])])]} value={policy} onChange={(v) => setPolicy(v ?? "default")} />
            <TextInput label="Owner" {...field("owner")} />
            <TagsInput label="Labels" placeholder="team=data" value={labels} onChange={setLabels} />
            <Textarea label="What it is for" autosize {...field("description")} />
            <Problem error={register.error} />
            <Group><Button type="submit" loading={register.isPending}>Register</Button></Group>
          </Stack>
        </form>
        <Stack>
          <Card withBorder component="section">
            <Title order={2} size="h4" mb="xs">What will happen then</Title>
            <List type="ordered" size="sm" spacing={4}>
              {by === "command" && <List.Item>A PlatformAdmin approves exactly the command; nothing is started before.</List.Item>}
              <List.Item>It is connected to and shaken hands with.</List.Item>
              <List.Item>Every list that it has is read to its end, or nothing of it counts.</List.Item>
              <List.Item>What it offers waits for an approval: nothing of it is callable before.</List.Item>
              <List.Item>After that it is probed every few minutes, and what changes stops being callable.</List.Item>
            </List>
          </Card>
          <Alert color="blue" variant="outline" title="The same by the command line">
            <Text size="sm" className="mono wrap">countersign server register {of.name.trim() || "NAME"} {by === "url" ? `--url ${of.endpointUrl.trim() || "URL"}` : by === "connection" ? `--connection ${connection || "NAME"}` : `--transport stdio --command-ref ${of.commandRef.trim() || "REF"}`} --wait verified</Text>
          </Alert>
        </Stack>
      </SimpleGrid>
    </Page>
  );
}
