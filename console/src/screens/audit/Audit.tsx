import { Button, Group, Menu, Select, Stack, TextInput } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useDebouncedCallback } from "@mantine/hooks";
import { useEffect, useState } from "react";

import { all, quote } from "../../api/filter";
import { useLive } from "../../api/live";
import { useParams, usePaging } from "../../app/url";
import { useMay } from "../../auth/me";
import { AuditFormat, AuditService } from "../../gen/countersign/registry/v1/audit_service_pb";
import { EmptyState } from "../../parts/EmptyState";
import { List, ListSkeleton, Pager } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { Chain } from "./Chain";
import { columns } from "./columns";
import { useExport } from "./export";
import { atOf, choices, local } from "./times";

/** Who did what to which object. Its filters are in its address: an object's page leads here with itself filled in. */
export default function Audit() {
  const may = useMay();
  if (!may(AuditService.method.listAuditEvents)) {
    return (
      <Page title="Audit">
        <EmptyState kind="withheld" title="The audit trail is for auditors and platform administrators">
          Ask somebody who has one of the roles, or ask for one.
        </EmptyState>
      </Page>
    );
  }
  return <Trail />;
}

function Trail() {
  const [params, set] = useParams();
  const paging = usePaging();
  const get = (name: string) => params.get(name) ?? "";
  const chosen = {
    filter: all(
      get("actor") && `actor : ${quote(get("actor"))}`, get("action") && `action : ${quote(get("action"))}`,
      get("kind") && `object_kind = ${quote(get("kind"))}`, get("outcome") && `outcome = ${get("outcome")}`, get("origin") && `origin = ${get("origin")}`,
    ),
    object: get("object"), startTime: atOf(get("from")), endTime: atOf(get("to")),
  };
  const { data, error, isPlaceholderData, refetch } = useLive(AuditService.method.listAuditEvents, {
    ...chosen, orderBy: get("order") || "time desc", pageSize: 50, pageToken: paging.token,
  });
  const filtered = ["actor", "action", "kind", "outcome", "origin", "object", "from", "to"].some((name) => params.has(name));
  const clear = () => set({ actor: "", action: "", kind: "", outcome: "", origin: "", object: "", from: "", to: "" });
  return (
    <Page title="Audit" actions={<Export chosen={chosen} />}>
      <Chain />
      <Group gap="xs" align="flex-end" role="search" aria-label="Filters">
        <Typed label="Object (id or name)" value={get("object")} onChange={(v) => set({ object: v })} first />
        <Typed label="Who" value={get("actor")} onChange={(v) => set({ actor: v })} />
        <Typed label="Action" value={get("action")} onChange={(v) => set({ action: v })} />
        <Select label="Outcome" placeholder="any" clearable data={["applied", "refused"]} value={get("outcome") || null} onChange={(v) => set({ outcome: v ?? "" })} w={130} comboboxProps={{ keepMounted: false }} />
        <Select label="By way of" placeholder="any" clearable data={choices.origin} value={get("origin") || null} onChange={(v) => set({ origin: v ?? "" })} w={160} />
        <TextInput label="From" type="datetime-local" value={local(get("from"))} onChange={(e) => set({ from: e.currentTarget.value && new Date(e.currentTarget.value).toISOString() })} />
        <TextInput label="To" type="datetime-local" value={local(get("to"))} onChange={(e) => set({ to: e.currentTarget.value && new Date(e.currentTarget.value).toISOString() })} />
        <Button variant="default" onClick={() => set({ order: get("order") ? "" : "time" })}>{get("order") ? "Newest first" : "Oldest first"}</Button>
        {filtered && <Button variant="subtle" onClick={clear}>Clear the filters</Button>}
      </Group>
      <Problem error={error} retry={() => void refetch()} />
      {!data && !error && <ListSkeleton />}
      {data && (data.events.length ? (
        <Stack gap="xs">
          <List caption="Audit events" columns={columns} rows={data.events} rowKey={(e) => e.auditId} stale={isPlaceholderData} />
          <Pager paging={paging} next={data.nextPageToken} shown={data.events.length} total={data.totalSize} noun="event" />
        </Stack>
      ) : filtered ? (
        <EmptyState kind="no-match" title="No event matches"><Button variant="default" onClick={clear}>Clear the filters</Button></EmptyState>
      ) : <EmptyState kind="empty" title="Nothing was done here yet" />)}
    </Page>
  );
}

/** A filter that one types, which waits until one stops. */
function Typed({ label, value, onChange, first = false }: { label: string; value: string; onChange: (v: string) => void; first?: boolean }) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  const tell = useDebouncedCallback(onChange, 300);
  return (
    <TextInput label={label} value={typed} w={170} data-search={first || undefined} onChange={(e) => { setTyped(e.currentTarget.value); tell(e.currentTarget.value.trim()); }} />
  );
}

function Export({ chosen }: { chosen: Parameters<ReturnType<typeof useExport>["start"]>[0] }) {
  const { start, state } = useExport();
  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target>
          <Button variant="default" leftSection={<IconDownload size={16} />} loading={state.kind === "running"}>Export</Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => void start(chosen, AuditFormat.JSONL)}>What is filtered, as JSON lines</Menu.Item>
          <Menu.Item onClick={() => void start(chosen, AuditFormat.CSV)}>What is filtered, as CSV</Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <span role="status">{state.kind === "running" ? `${state.events.toLocaleString()} events so far` : state.kind === "done" ? `${state.events.toLocaleString()} events exported` : ""}</span>
      {state.kind === "failed" && <Problem error={state.error} title="The export failed" />}
    </>
  );
}
