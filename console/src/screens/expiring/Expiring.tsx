import { Anchor, Button, Group, Modal, Select, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { useState } from "react";
import { Link } from "react-router";

import { useAction } from "../../api/action";
import { useLive } from "../../api/live";
import { usePaging, useParam } from "../../app/url";
import { useMay } from "../../auth/me";
import { ApprovalService, type Expiring as Ends } from "../../gen/countersign/registry/v1/approval_service_pb";
import { EmptyState } from "../../parts/EmptyState";
import { Escaped } from "../../parts/Escaped";
import { type Column, List, ListSkeleton, Pager } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";
import { count } from "../../parts/words";

const days = [["1", "within a day"], ["7", "within 7 days"], ["14", "within 14 days"], ["90", "within 90 days"]] as const;

/** What of servers ends by itself unless somebody does something: whatever ends first, first. */
export default function Expiring() {
  const [within, setWithin] = useParam("within");
  const paging = usePaging();
  const may = useMay();
  const [renewing, setRenewing] = useState<Ends>();
  const seconds = BigInt(Math.max(0, Number.parseInt(within, 10) || 0) * 86_400);
  const { data, error, isPlaceholderData, refetch } = useLive(ApprovalService.method.listExpiring, {
    ...(seconds > 0n && { within: { seconds } }), pageSize: 50, pageToken: paging.token,
  });
  const columns: Column<Ends>[] = [
    { key: "server", header: "Server", cell: (e) => <Anchor component={Link} fw={600} to={`/servers/${encodeURIComponent(e.serverName)}`}>{e.serverName}</Anchor> },
    {
      key: "what", header: "What ends", cell: (e) => (
        <>
          {e.kind === "exception" ? "The exception for no authentication" : e.kind === "approval" ? "An approval" : "The request for an approval"}
          <Text size="xs" c="dimmed">{e.kind === "request" ? "asked for" : "given"} by <Escaped text={e.by || "the product"} /></Text>
        </>
      ),
    },
    { key: "end", header: "Ends", cell: (e) => <Time at={e.endTime} /> },
    {
      key: "then", header: "What it takes with it", cell: (e) => e.kind === "request" ? "It has to be asked for again; nothing that is bound falls"
        : e.bound ? <>{count(e.bound, "thing")} no longer callable</> : "Nothing is bound",
    },
    {
      key: "do", header: <span className="unseen-text">Action</span>, label: "", cell: (e) => e.kind === "exception"
        ? may(ApprovalService.method.renewException) && <Button size="compact-sm" variant="default" onClick={() => setRenewing(e)}>Renew</Button>
        : <Anchor component={Link} size="sm" to={`/servers/${encodeURIComponent(e.serverName)}/review`}>Review</Anchor>,
    },
  ];
  return (
    <Page title="Expiring">
      <Group><Select label="Ends" clearable placeholder="whenever" data={days.map(([value, label]) => ({ value, label }))} value={within || null} onChange={(v) => setWithin(v ?? "")} w={180} /></Group>
      <Problem error={error} retry={() => void refetch()} />
      {!data && !error && <ListSkeleton />}
      {data && (data.expiring.length ? (
        <>
          <List caption="What ends" columns={columns} rows={data.expiring} rowKey={(e) => `${e.kind} ${e.serverId} ${e.decisionId}`} stale={isPlaceholderData} />
          <Pager paging={paging} next={data.nextPageToken} shown={data.expiring.length} total={data.totalSize} noun="thing" />
        </>
      ) : within ? <EmptyState kind="no-match" title="Nothing ends so soon"><Button variant="default" onClick={() => setWithin("")}>Show all that ends</Button></EmptyState>
        : <EmptyState kind="empty" title="Nothing ends by itself" />)}
      {renewing && <Renew of={renewing} onClose={() => setRenewing(undefined)} />}
    </Page>
  );
}

/** Extends the permission to reach a server without authentication. */
function Renew({ of: e, onClose }: { of: Ends; onClose: () => void }) {
  const [until, setUntil] = useState(() => new Date(Date.now() + 30 * 86_400_000).toISOString().slice(0, 10));
  const [comment, setComment] = useState("");
  const renew = useAction(ApprovalService.method.renewException, { done: "The exception is renewed", then: onClose });
  return (
    <Modal opened onClose={onClose} title={`Renew the exception of ${e.serverName}`} closeButtonProps={{ "aria-label": "Close" }}>
      <form onSubmit={(event) => {
        event.preventDefault();
        renew.mutate({ serverId: e.serverId, expireTime: timestampFromDate(new Date(`${until}T23:59:59`)), comment: comment.trim() });
      }}>
        <Stack>
          <Text size="sm">{e.serverName} may be reached without authentication until then.</Text>
          <TextInput label="Until" type="date" required value={until} min={new Date().toISOString().slice(0, 10)} onChange={(x) => setUntil(x.currentTarget.value)} data-autofocus />
          <Textarea label="Comment" description="It stays in the audit trail." required autosize minRows={2} value={comment} onChange={(x) => setComment(x.currentTarget.value)} />
          <Problem error={renew.error} />
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>Cancel</Button>
            <Button type="submit" loading={renew.isPending} disabled={!comment.trim()}>Renew it</Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
