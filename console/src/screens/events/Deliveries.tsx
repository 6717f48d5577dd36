import { Button, Group, Select, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconCircleCheck, IconHourglass } from "@tabler/icons-react";

import { useAction } from "../../api/action";
import { useLive } from "../../api/live";
import { usePaging, useParam } from "../../app/url";
import { useMay } from "../../auth/me";
import { type Delivery, DeliveryState, EventService, type Subscription } from "../../gen/countersign/registry/v1/event_service_pb";
import { Chip } from "../../parts/Chip";
import { CopyId } from "../../parts/Copy";
import { EmptyState } from "../../parts/EmptyState";
import { Escaped } from "../../parts/Escaped";
import { type Column, List, ListSkeleton, Pager } from "../../parts/List";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";
import { count } from "../../parts/words";

const states: Record<string, DeliveryState> = { pending: DeliveryState.PENDING, delivered: DeliveryState.DELIVERED, dead: DeliveryState.DEAD };

function State({ of: d }: { of: Delivery }) {
  const chip = d.state === DeliveryState.DELIVERED ? <Chip tone="good" icon={IconCircleCheck}>delivered</Chip>
    : d.state === DeliveryState.DEAD ? <Chip tone="bad" icon={IconAlertTriangle}>dead letter</Chip>
      : <Chip tone="mute" icon={IconHourglass}>under way</Chip>;
  return (
    <>
      {chip}
      <Text size="xs" c="dimmed">{count(d.attempts, "attempt")}{d.status > 0 && `, HTTP ${d.status}`}</Text>
      {d.problem && <Text size="sm"><Escaped text={d.problem} max={400} /></Text>}
    </>
  );
}

/** The delivery log, the latest first; what is dead can be sent again, one by one or all of it. */
export function Deliveries({ of: s }: { of: Pick<Subscription, "subscriptionId" | "dead"> }) {
  const [state, setState] = useParam("state");
  const paging = usePaging();
  const may = useMay();
  const { data, error, isPlaceholderData, refetch } = useLive(EventService.method.listDeliveries, {
    subscriptionId: s.subscriptionId, state: states[state] ?? DeliveryState.UNSPECIFIED, pageSize: 50, pageToken: paging.token,
  }, { every: 5_000 });
  const replay = useAction(EventService.method.replayEvents, { done: (a) => `${count(a.events, "event")} on the way again${a.more ? "; there are more: replay again" : ""}` });
  const mayReplay = may(EventService.method.replayEvents);
  const columns: Column<Delivery>[] = [
    { key: "when", header: "Happened", cell: (d) => <Time at={d.createTime} /> },
    { key: "what", header: "Event", cell: (d) => <>{d.type}<Text size="xs" component="div"><CopyId id={d.eventId} label="Copy the event's id" /></Text></> },
    { key: "subject", header: "Subject", cell: (d) => <><Escaped text={d.subject} /><Text size="xs" c="dimmed">No. {d.sequence.toLocaleString()}</Text></> },
    { key: "state", header: "What became of it", cell: (d) => <State of={d} /> },
    { key: "last", header: "Last attempt", cell: (d) => <Time at={d.lastAttemptTime} otherwise="none yet" /> },
    {
      key: "do", header: <span className="unseen-text">Action</span>, label: "", cell: (d) => d.state !== DeliveryState.PENDING && mayReplay && (
        <Button size="compact-sm" variant="default" onClick={() => replay.mutate({ subscriptionId: s.subscriptionId, eventIds: [d.eventId] })}>Replay</Button>
      ),
    },
  ];
  return (
    <Stack gap="xs">
      <Group align="flex-end" gap="xs">
        <Select label="State" placeholder="any" clearable data={Object.keys(states)} value={state || null} onChange={(v) => setState(v ?? "")} w={150} />
        {mayReplay && s.dead > 0 && (
          <Button variant="default" loading={replay.isPending} onClick={() => replay.mutate({ subscriptionId: s.subscriptionId, dead: true })}>Replay {count(s.dead, "dead letter")}</Button>
        )}
      </Group>
      <Problem error={replay.error} />
      <Problem error={error} retry={() => void refetch()} />
      {!data && !error && <ListSkeleton />}
      {data && (data.deliveries.length ? (
        <>
          <List caption="Deliveries" columns={columns} rows={data.deliveries} rowKey={(d) => d.eventId} stale={isPlaceholderData} />
          <Pager paging={paging} next={data.nextPageToken} shown={data.deliveries.length} noun="delivery" nouns="deliveries" />
        </>
      ) : state ? <EmptyState kind="no-match" title="No delivery is in this state"><Button variant="default" onClick={() => setState("")}>Show all</Button></EmptyState>
        : <EmptyState kind="empty" title="Nothing was to be delivered yet" />)}
    </Stack>
  );
}
