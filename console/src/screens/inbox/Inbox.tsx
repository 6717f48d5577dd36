import { Anchor, Button, Group, Select, Switch, Text } from "@mantine/core";
import { Link } from "react-router";

import { all, quote } from "../../api/filter";
import { useLive } from "../../api/live";
import { useParams, usePaging } from "../../app/url";
import { type Approval, ApprovalService } from "../../gen/countersign/registry/v1/approval_service_pb";
import { Severity } from "../../parts/Chip";
import { EmptyState } from "../../parts/EmptyState";
import { Escaped } from "../../parts/Escaped";
import { type Column, List, ListSkeleton, Pager } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { Search } from "../../parts/Search";
import { Time } from "../../parts/Time";
import { count, reviewKindWord } from "../../parts/words";
import { countsOf, Demand } from "../review/Demand";

const columns: Column<Approval>[] = [
  {
    key: "server", header: "Server", cell: (a) => (
      <>
        <Anchor component={Link} fw={600} to={`/servers/${encodeURIComponent(a.serverName)}/review`}>{a.serverName}</Anchor>
        {a.owner && <Text size="xs" c="dimmed">of <Escaped text={a.owner} /></Text>}
      </>
    ),
  },
  { key: "kind", header: "What", cell: (a) => <>{reviewKindWord[a.kind]}<Text size="xs" c="dimmed">asked for by <Escaped text={a.review?.requestedBy ?? ""} /> <Time at={a.review?.openTime} /></Text></> },
  { key: "worst", header: "Worst", cell: (a) => <><Severity severity={a.counts?.severity ?? 0} /><Text size="xs" c="dimmed">{countsOf(a.counts)}</Text></> },
  { key: "takes", header: "It takes", cell: (a) => <Demand of={a} /> },
  { key: "ends", header: "Ends", cell: (a) => <Time at={a.review?.expireTime} /> },
];

/** What waits for an approval; whatever ends first, first. */
export default function Inbox() {
  const [params, set] = useParams();
  const paging = usePaging();
  const get = (name: string) => params.get(name) ?? "";
  const { data, error, isPlaceholderData, refetch } = useLive(ApprovalService.method.listApprovals, {
    filter: all(get("q") && `server : ${quote(get("q"))}`, get("kind") && `kind = ${get("kind")}`), decidable: get("mine") === "true",
    ...(get("within") && { within: { seconds: BigInt(Number.parseInt(get("within"), 10) || 1) * 86_400n } }), pageSize: 50, pageToken: paging.token,
  });
  const filtered = ["q", "kind", "mine", "within"].some((n) => params.has(n));
  const clear = () => set({ q: "", kind: "", mine: "", within: "" });
  return (
    <Page title="Inbox">
      <Group gap="xs" align="flex-end" role="search" aria-label="Filters">
        <Search label="Search by server" value={get("q")} onChange={(q) => set({ q })} />
        <Select aria-label="Kind" placeholder="any kind" clearable data={["first", "drift", "again"]} value={get("kind") || null} onChange={(v) => set({ kind: v ?? "" })} w={140} />
        <Select aria-label="Ends" placeholder="ends whenever" clearable data={[{ value: "1", label: "within a day" }, { value: "3", label: "within 3 days" }]} value={get("within") || null} onChange={(v) => set({ within: v ?? "" })} w={170} />
        <Switch label="What I can approve" checked={get("mine") === "true"} onChange={(e) => set({ mine: e.currentTarget.checked ? "true" : "" })} />
        {filtered && <Button variant="subtle" onClick={clear}>Clear the filters</Button>}
      </Group>
      <Problem error={error} retry={() => void refetch()} />
      {!data && !error && <ListSkeleton />}
      {data && (data.approvals.length ? (
        <>
          <List caption="Requests for approval" columns={columns} rows={data.approvals} rowKey={(a) => a.serverId} stale={isPlaceholderData} />
          <Pager paging={paging} next={data.nextPageToken} shown={data.approvals.length} total={data.totalSize} noun="request" />
        </>
      ) : filtered ? <EmptyState kind="no-match" title={get("mine") ? "Nothing waits for you" : "No request matches"}><Button variant="default" onClick={clear}>Clear the filters</Button></EmptyState>
        : <EmptyState kind="empty" title="Nothing waits for an approval">{count(0, "request")}</EmptyState>)}
    </Page>
  );
}
