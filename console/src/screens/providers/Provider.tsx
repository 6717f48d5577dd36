import { useMutation } from "@connectrpc/connect-query";
import { Alert, Anchor, Button, Card, Code, Stack, Text, Title } from "@mantine/core";
import { IconPlugConnected, IconRefresh, IconTrash } from "@tabler/icons-react";
import { useState } from "react";
import { Link, useNavigate, useParams } from "react-router";

import { useAction } from "../../api/action";
import { everyList, everyRun, useLive } from "../../api/live";
import { problemOf } from "../../api/problem";
import { useMay } from "../../auth/me";
import { type DescriptorFault, ProviderRefreshStatus, type ToolProvider, ToolProviderService } from "../../gen/countersign/registry/v1/tool_provider_service_pb";
import { ConfirmByDryRun } from "../../parts/ConfirmByDryRun";
import { CopyMenu } from "../../parts/Copy";
import { EmptyState } from "../../parts/EmptyState";
import { Escaped } from "../../parts/Escaped";
import { ListSkeleton } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";
import { count } from "../../parts/words";
import { Brings } from "./Brings";
import { ProviderTest } from "./ProviderTest";
import { RefreshChip } from "./RefreshChip";
import { familyWord } from "./words";

const up = [{ label: "Providers", to: "/providers" }];

/** One provider: what its last refresh found, what it brings, and what is wrong with its descriptor. */
export default function Provider() {
  const { name = "" } = useParams();
  const { data, error, refetch } = useLive(ToolProviderService.method.getToolProvider, { name }, {
    every: (d) => (d?.provider?.refresh?.status === ProviderRefreshStatus.RUNNING ? everyRun : everyList),
  });
  const test = useAction(ToolProviderService.method.testToolProvider);
  if (error && problemOf(error).notFound) {
    return <Page title={name} up={up}><EmptyState kind="missing" title="There is no such provider" /></Page>;
  }
  const p = data?.provider;
  return (
    <Page title={name} up={up} actions={p && <Actions of={p} test={() => test.mutate({ name: p.name })} testing={test.isPending} />}>
      <Problem error={error} retry={() => void refetch()} />
      {!p && !error && <ListSkeleton rows={4} />}
      {p && (
        <Stack>
          <Problem error={test.error} title="It could not be tried" />
          {test.data && <Card withBorder component="section"><Title order={2} size="h4" mb="xs">The test just now</Title><ProviderTest of={test.data} /></Card>}
          <Card withBorder><Facts of={p} /></Card>
          {p.refresh && <Faults faults={p.refresh.faults} warnings={p.refresh.warnings} />}
          <Brings of={p} />
        </Stack>
      )}
    </Page>
  );
}

function Facts({ of: p }: { of: ToolProvider }) {
  const r = p.refresh;
  const c = r?.counts;
  return (
    <dl className="facts">
      <dt>Kind</dt><dd>{familyWord[p.family]}</dd>
      <dt>State</dt><dd>{p.enabled ? "enabled" : "disabled: nothing it brings is callable"}</dd>
      {p.description && <><dt>What for</dt><dd><Escaped text={p.description} /></dd></>}
      {p.config.case === "aep" && <><dt>Extension</dt><dd><Escaped text={p.config.value.extensionId} /> at <Escaped text={p.config.value.baseUrl} /></dd></>}
      {p.config.case === "mcp" && <><dt>Server</dt><dd><Anchor component={Link} size="sm" to={`/servers/${encodeURIComponent(p.name)}`}>{p.name}</Anchor></dd></>}
      <dt>Last refresh</dt>
      <dd>
        <RefreshChip status={r?.status} /> {r?.finishTime && <><Time at={r.finishTime} />, asked for by <Escaped text={r.requestedBy} /></>}
        {r?.reason && <div><Code>{r.reason}</Code> <Escaped text={r.message} /></div>}
        {r?.nextStep && <Text size="sm">Next: <Escaped text={r.nextStep} /></Text>}
      </dd>
      {r?.succeedTime && <><dt>Last success</dt><dd><Time at={r.succeedTime} /></dd></>}
      {c && r?.succeedTime && <><dt>It found</dt><dd>{count(c.newTools, "new tool")}, {c.changedTools} changed, {c.unchangedTools} unchanged, {c.unavailableTools} gone; {c.totalTools} in all</dd></>}
      {r?.extension?.name && <><dt>It calls itself</dt><dd><Escaped text={`${r.extension.name} ${r.extension.version}`} /></dd></>}
      <dt>Made</dt><dd><Time at={p.createTime} /> by <Escaped text={p.createdBy} /></dd>
    </dl>
  );
}

/** What is wrong with a descriptor, place by place. */
export function Faults({ faults, warnings }: { faults: DescriptorFault[]; warnings: DescriptorFault[] }) {
  if (faults.length + warnings.length === 0) return null;
  return (
    <>
      {faults.length > 0 && (
        <Alert color="red" variant="outline" title={`${count(faults.length, "fault")} of the descriptor: nothing was changed by it`} className="wrap">
          {faults.map((f) => <div key={f.path + f.message}><Code><Escaped text={f.path} /></Code> <Escaped text={f.message} /></div>)}
        </Alert>
      )}
      {warnings.length > 0 && (
        <Alert color="yellow" variant="outline" title={count(warnings.length, "warning")} className="wrap">
          {warnings.map((f) => <div key={f.path + f.message}><Code><Escaped text={f.path} /></Code> <Escaped text={f.message} /></div>)}
        </Alert>
      )}
    </>
  );
}

function Actions({ of: p, test, testing }: { of: ToolProvider; test: () => void; testing: boolean }) {
  const may = useMay();
  const navigate = useNavigate();
  const [asking, setAsking] = useState<"disable" | "delete">();
  const m = ToolProviderService.method;
  const refresh = useAction(m.refreshToolProvider, { done: (a) => (a.done ? "The refresh has ended" : "The refresh is under way") });
  const enable = useAction(m.enableToolProvider, { done: "It is enabled" });
  const disable = useAction(m.disableToolProvider, { done: "It is disabled", then: () => setAsking(undefined) });
  const dry = useMutation(m.deleteToolProvider);
  const remove = useAction(m.deleteToolProvider, { done: "The provider is deleted", then: () => void navigate("/providers") });
  const live = count(p.serverCount, "server");
  return (
    <>
      <CopyMenu id={p.providerId} command={`countersign provider describe ${p.name}`} />
      {may(m.testToolProvider) && <Button variant="default" leftSection={<IconPlugConnected size={16} />} loading={testing} onClick={test}>Test</Button>}
      {may(m.refreshToolProvider) && <Button leftSection={<IconRefresh size={16} />} loading={refresh.isPending} onClick={() => refresh.mutate({ name: p.name })}>Refresh</Button>}
      {p.enabled ? may(m.disableToolProvider) && <Button variant="default" onClick={() => setAsking("disable")}>Disable</Button>
        : may(m.enableToolProvider) && <Button variant="default" loading={enable.isPending} onClick={() => enable.mutate({ name: p.name, etag: p.etag })}>Enable</Button>}
      {may(m.deleteToolProvider) && <Button variant="default" leftSection={<IconTrash size={16} />} onClick={() => { setAsking("delete"); dry.mutate({ name: p.name, etag: p.etag, dryRun: true }); }}>Delete</Button>}
      <div style={{ width: "100%" }}><Problem error={refresh.error ?? enable.error} /></div>
      {asking === "disable" && (
        <ConfirmByDryRun
          opened onClose={() => setAsking(undefined)} title={`Disable ${p.name}`} verb="Disable it" loading={false} pending={disable.isPending} error={disable.error}
          touches={<>Every tool of its {live} stops being callable at once, until it is enabled again. Approvals stay.</>}
          onConfirm={() => disable.mutate({ name: p.name, etag: p.etag })}
        />
      )}
      {asking === "delete" && (
        <ConfirmByDryRun
          opened onClose={() => setAsking(undefined)} title={`Delete ${p.name}`} verb="Delete it" loading={dry.isPending} dryRunError={dry.error} pending={remove.isPending} error={remove.error}
          touches={dry.data && "It has no live server. What it contributed goes with it; what it was stays in the audit trail."}
          onConfirm={() => remove.mutate({ name: p.name, etag: p.etag })}
        />
      )}
    </>
  );
}
