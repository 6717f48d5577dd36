import { Group, Stack, Tabs } from "@mantine/core";
import { lazy, Suspense } from "react";
import { useParams } from "react-router";

import { everyList, everyRun, useLive } from "../../api/live";
import { problemOf } from "../../api/problem";
import { useParam } from "../../app/url";
import { McpServerService } from "../../gen/countersign/registry/v1/mcp_server_service_pb";
import { DiscoveryStatus, type McpServer, McpServerState } from "../../gen/countersign/registry/v1/types_pb";
import { Health, StateChip } from "../../parts/Chip";
import { EmptyState } from "../../parts/EmptyState";
import { ListSkeleton } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { Actions } from "./Actions";
import { Definition } from "./Definition";
import { NextAction } from "./NextAction";
import { Offers } from "./Offers";
import { Overview } from "./Overview";
import { Runs } from "./Runs";
import { Versions } from "./Versions";

const HealthTab = lazy(() => import("./HealthTab"));

const tabs = ["Overview", "Tools", "Resources", "Prompts", "Versions", "Runs", "Health", "Definition"];
const up = [{ label: "Servers", to: "/servers" }];

/** Whether something is under way, so that one should look again soon. */
function busy(s: McpServer | undefined): boolean {
  return s?.discovery?.status === DiscoveryStatus.RUNNING || (s?.state === McpServerState.REGISTERED && s.discovery?.status === DiscoveryStatus.NEVER);
}

/** All of one server. */
export default function Server() {
  const { name = "" } = useParams();
  const [tab, setTab] = useParam("tab", "overview");
  const { data, error, refetch } = useLive(McpServerService.method.getMcpServer, { serverId: name }, { every: (d) => (busy(d?.server) ? everyRun : everyList) });
  if (error && problemOf(error).notFound) {
    return <Page title={name} up={up}><EmptyState kind="missing" title="There is no such server" /></Page>;
  }
  const s = data?.server;
  return (
    <Page title={s?.name ?? name} up={up} actions={s && <Actions of={s} />}>
      <Problem error={error} retry={() => void refetch()} />
      {!s && !error && <ListSkeleton />}
      {s && (
        <Stack>
          <Group gap="lg" align="flex-start" data-server-state={s.state}>
            <StateChip state={s.state} />
            <Health health={s.health} summary={false} />
            <span>{s.counts?.boundTools ?? 0} of {s.counts?.tools ?? 0} tools bound, {s.counts?.callableTools ?? 0} callable</span>
          </Group>
          <NextAction of={s} />
          <Tabs value={tab} onChange={(v) => setTab(v ?? "overview")} keepMounted={false} activateTabWithKeyboard={false}>
            <Tabs.List aria-label="What of the server">
              {tabs.map((t) => <Tabs.Tab key={t} value={t.toLowerCase()}>{t}</Tabs.Tab>)}
            </Tabs.List>
            <Tabs.Panel value="overview" pt="md"><Overview of={s} /></Tabs.Panel>
            <Tabs.Panel value="tools" pt="md"><Offers of={s} kind="tools" /></Tabs.Panel>
            <Tabs.Panel value="resources" pt="md"><Offers of={s} kind="resources" /></Tabs.Panel>
            <Tabs.Panel value="prompts" pt="md"><Offers of={s} kind="prompts" /></Tabs.Panel>
            <Tabs.Panel value="versions" pt="md"><Versions of={s} /></Tabs.Panel>
            <Tabs.Panel value="runs" pt="md"><Runs of={s} /></Tabs.Panel>
            <Tabs.Panel value="health" pt="md"><Suspense fallback={<ListSkeleton />}><HealthTab of={s} /></Suspense></Tabs.Panel>
            <Tabs.Panel value="definition" pt="md"><Definition of={s} /></Tabs.Panel>
          </Tabs>
        </Stack>
      )}
    </Page>
  );
}
