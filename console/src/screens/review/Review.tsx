import { Alert, Anchor, Button, Card, Group, NavLink, ScrollArea, SegmentedControl, Select, Stack, Text, TextInput } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { IconRefresh } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { memo, useMemo, useState } from "react";
import { Link, useParams } from "react-router";

import { heldKey, useLive } from "../../api/live";
import { problemOf } from "../../api/problem";
import { useParam } from "../../app/url";
import { ApprovalService } from "../../gen/countersign/registry/v1/approval_service_pb";
import { DiffStatus, type GetReviewResponse, ItemKind, ReviewKind, type ReviewItem } from "../../gen/countersign/registry/v1/review_pb";
import { McpServerService } from "../../gen/countersign/registry/v1/mcp_server_service_pb";
import { SideEffectClass } from "../../gen/countersign/registry/v1/types_pb";
import { EmptyState } from "../../parts/EmptyState";
import { Escaped } from "../../parts/Escaped";
import { ListSkeleton } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { classWord, count, diffWord, reviewKindWord, severityWord } from "../../parts/words";
import { About } from "./About";
import { Decide } from "./Decide";
import { countsOf } from "./Demand";
import { Item } from "./Item";
import { itemsOf, keyOf, type Lines, nothing } from "./lines";
import { useViewed } from "./viewed";
import { useWholeReview } from "./whole";

/** What there is to sign about a server, whole, and the decision about it. */
export default function Review() {
  const { name = "" } = useParams();
  const up = [{ label: "Servers", to: "/servers" }, { label: name, to: `/servers/${encodeURIComponent(name)}` }];
  const whole = useWholeReview(name);
  if (whole.error) {
    const p = problemOf(whole.error);
    return (
      <Page title={`Review of ${name}`} up={up}>
        {p.notFound ? <EmptyState kind="missing" title="There is no such server" /> : p.reason === "nothing_discovered" ? <EmptyState kind="never" title="Nothing is known yet of what it offers" /> : <Problem error={whole.error} retry={() => void whole.refetch()} />}
      </Page>
    );
  }
  return (
    <Page title={`Review of ${name}`} up={up}>
      {whole.data ? <Sheet key={whole.data.review?.digest} of={whole.data} again={() => void whole.refetch()} /> : <ListSkeleton />}
    </Page>
  );
}

function Sheet({ of: r, again }: { of: GetReviewResponse; again: () => void }) {
  const digest = r.review?.digest ?? "";
  const live = useLive(McpServerService.method.getMcpServer, { serverId: r.serverId }, { every: 5_000 });
  const approval = useLive(ApprovalService.method.getApproval, { serverId: r.serverId, digest }, { every: 10_000, enabled: digest !== "" });
  const queries = useQueryClient();
  const now = live.data?.server;
  const newer = now?.review?.digest && now.review.digest !== digest ? now.review.digest : "";
  const [view, setView] = useParam("view", "unified", true);
  const [lines, setLines] = useState<Lines>({});
  const items = useMemo(() => itemsOf(r), [r]);
  const shown = items.filter((i) => i.diff?.status !== DiffStatus.UNCHANGED || i.needsLook || r.kind !== ReviewKind.DRIFT);
  const [unchanged, setUnchanged] = useParam("all", "", true);
  const [q, setQ] = useState("");
  const list = (unchanged ? items : shown).filter((i) => (i.diff?.name ?? "").toLowerCase().includes(q.toLowerCase()));
  const hidden = items.length - shown.length;
  const [at, setAt] = useState("");
  const [viewed, mark] = useViewed(digest || r.serverId);
  const current = list.find((i) => keyOf(i) === at);
  const step = (by: 1 | -1) => {
    const index = list.findIndex((i) => keyOf(i) === at);
    const next = list[Math.min(Math.max(index + by, 0), list.length - 1)];
    if (next) {
      setAt(keyOf(next));
      document.getElementById(`item ${keyOf(next)}`)?.focus();
    }
  };
  const setClass = (c: SideEffectClass | 0) => {
    if (current?.diff?.kind === ItemKind.TOOL && !current.quarantineReason) setLines((l) => ({ ...l, [keyOf(current)]: { ...nothing, class: c } }));
  };
  useHotkeys([
    ["j", () => step(1)], ["k", () => step(-1)], ["v", () => current && mark(keyOf(current), !viewed.has(keyOf(current)))], ["0", () => setClass(0)], ["1", () => setClass(SideEffectClass.READ)], ["2", () => setClass(SideEffectClass.SANDBOX)],
    ["3", () => setClass(SideEffectClass.SHARED_WRITE)], ["4", () => setClass(SideEffectClass.PUBLICATION)], ["a", () => document.getElementById("comment")?.focus()],
  ]);
  const tools = list.filter((i) => i.diff?.kind === ItemKind.TOOL && i.diff.status !== DiffStatus.REMOVED && !i.quarantineReason);
  const bulk = (pick: (i: ReviewItem) => SideEffectClass | 0) => setLines((l) => ({ ...l, ...Object.fromEntries(tools.map((i) => [keyOf(i), { ...nothing, class: pick(i) }])) }));
  const reload = () => { again(); void queries.invalidateQueries({ predicate: (x) => x.queryKey[0] !== heldKey }); };
  const a = approval.data?.approval;
  return (
    <Stack>
      {newer && (
        <Alert color="yellow" variant="outline" role="alert" title="Superseded: the server changed while you were looking">
          <Text size="sm">What you see cannot be signed any more. {r.review?.snapshotDigest && now && <Anchor component={Link} size="sm" to={`/servers/${encodeURIComponent(r.serverName)}?tab=versions&from=${encodeURIComponent(r.review.snapshotDigest)}&to=${encodeURIComponent(now.snapshotDigest)}`}>What changed since</Anchor>}</Text>
          <Button mt="xs" size="compact-md" leftSection={<IconRefresh size={14} />} onClick={reload}>Show what is there now</Button>
        </Alert>
      )}
      <Group gap="lg">
        <Text fw={600}>{reviewKindWord[r.kind]}</Text>
        <Text data-counts>{a ? countsOf(a.counts) || (a.demand ? "nothing changed" : "") : r.diff && `${severityWord[r.diff.severity]}`}</Text>
        <Text size="sm" c="dimmed">{count(items.length, "item")}; {r.hintedItems} with hints, {r.quarantinedItems} in quarantine, {r.unboundItems} not bound</Text>
        <Text size="sm" c="dimmed" role="status">{items.filter((i) => viewed.has(keyOf(i))).length} of {items.length} viewed</Text>
      </Group>
      <About of={r} split={view === "split"} />
      <Group align="flex-end" gap="xs">
        <TextInput data-search aria-label="Search the items" placeholder="Search the items" value={q} onChange={(e) => setQ(e.currentTarget.value)} w={220} />
        <SegmentedControl size="sm" aria-label="How texts are compared" data={[{ value: "unified", label: "Unified" }, { value: "split", label: "Split" }]} value={view} onChange={setView} />
        {hidden > 0 && <Button variant="default" onClick={() => setUnchanged(unchanged ? "" : "true")}>{unchanged ? "Only what changed" : `${hidden} unchanged hidden: show`}</Button>}
        <Select aria-label="Class for all shown tools" placeholder="Class for all shown" data={[SideEffectClass.READ, SideEffectClass.SANDBOX, SideEffectClass.SHARED_WRITE, SideEffectClass.PUBLICATION].map((c) => ({ value: String(c), label: classWord[c] }))} value={null} onChange={(v) => v && bulk(() => Number(v))} w={190} />
        <Button variant="default" onClick={() => bulk((i) => i.suggestion?.class ?? 0)}>Declare as suggested</Button>
        {tools.some((i) => i.terms?.declaredClass) && <Button variant="default" onClick={() => bulk((i) => i.terms?.declaredClass ?? 0)}>Declare as before</Button>}
        <Button variant="subtle" onClick={() => setLines({})}>Clear</Button>
      </Group>
      <Text size="xs" c="dimmed">Keys: j and k go from item to item, 1 to 4 declare read, sandbox, shared write, publication, 0 takes it back, v marks an item as viewed, a goes to the decision.</Text>
      <div className="review">
        <Card withBorder p={4}>
          <ScrollArea.Autosize mah={560} type="auto" viewportProps={{ tabIndex: 0, role: "region", "aria-label": "Items" }}>
            {list.map((i) => <Row key={keyOf(i)} of={i} active={keyOf(i) === at} viewed={viewed.has(keyOf(i))} as={(lines[keyOf(i)] ?? nothing).class} named={(lines[keyOf(i)] ?? nothing).target !== ""} choose={setAt} />)}
            {list.length === 0 && <Text size="sm" p="sm">{q ? "No item matches." : "Nothing changed."}</Text>}
          </ScrollArea.Autosize>
        </Card>
        <Card withBorder>
          {current ? <Item key={keyOf(current)} of={current} split={view === "split"} viewed={viewed.has(keyOf(current))} onViewed={(is) => mark(keyOf(current), is)} line={lines[keyOf(current)] ?? nothing} onChange={(line) => setLines((l) => ({ ...l, [keyOf(current)]: line }))} />
            : <Text size="sm">{list.length ? "Choose an item: the worst are first." : "There is no item to look at."}</Text>}
        </Card>
      </div>
      <Decide of={r} approval={approval.data} lines={lines} superseded={newer !== ""} reload={reload} authentication={now?.authentication} exception={now?.authenticationException} />
    </Stack>
  );
}

/** One item in the list of items. */
const Row = memo(function Row({ of: i, active, viewed, as, named, choose }: { of: ReviewItem; active: boolean; viewed: boolean; as: SideEffectClass | 0; named: boolean; choose: (key: string) => void }) {
  const d = i.diff;
  return (
    <NavLink
      component="button" type="button" id={`item ${keyOf(i)}`} active={active} aria-current={active || undefined} onClick={() => choose(keyOf(i))}
      label={<Escaped text={d?.name ?? ""} />} py={4}
      description={[
        d && (d.status === DiffStatus.CHANGED ? severityWord[d.severity] : diffWord[d.status]), i.quarantineReason && "in quarantine", i.hints.length > 0 && count(i.hints.length, "hint"),
        as ? `→ ${classWord[as]}` : named && "→ named",
        viewed && "viewed",
      ].filter(Boolean).join(" · ")}
      styles={{ label: { overflowWrap: "anywhere" }, description: { color: "var(--mantine-color-dimmed)" } }}
    />
  );
});
