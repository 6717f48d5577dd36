import { Anchor, Button, Code, Text, Title } from "@mantine/core";
import { IconAlertTriangle, IconCircleCheck, IconPlayerPause, IconPlus } from "@tabler/icons-react";
import { useState } from "react";
import { Link } from "react-router";

import { useLive } from "../../api/live";
import { useMay } from "../../auth/me";
import { type Bus, EventService, type Subscription, SubscriptionDirection } from "../../gen/countersign/registry/v1/event_service_pb";
import { Chip } from "../../parts/Chip";
import { CopyCommand } from "../../parts/Copy";
import { EmptyState } from "../../parts/EmptyState";
import { Escaped } from "../../parts/Escaped";
import { type Column, List, ListSkeleton } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";
import { count } from "../../parts/words";
import { BusState } from "./Bus";
import { NewSubscription } from "./NewSubscription";

const columns: Column<Subscription>[] = [
  {
    key: "id", header: "Subscription", cell: (s) => (
      <>
        <Anchor component={Link} to={`/events/${encodeURIComponent(s.subscriptionId)}`} fw={600}>{s.subscriptionId}</Anchor>
        {s.spec?.description && <Text size="xs" c="dimmed"><Escaped text={s.spec.description} /></Text>}
      </>
    ),
  },
  {
    key: "where", header: "To or from", cell: (s) => s.direction === SubscriptionDirection.RECEIVE
      ? <>receives at <Code>{s.receivePath}</Code></> : <>sends to <Escaped text={s.spec?.url ?? ""} /></>,
  },
  {
    key: "what", header: "What", cell: (s) => (
      <>
        {s.spec?.types.length ? count(s.spec.types.length, "type") : "every type"}
        {s.spec?.subjects.length ? `, of ${count(s.spec.subjects.length, "subject")}` : ""}
      </>
    ),
  },
  { key: "state", header: "State", cell: (s) => <SubscriptionState of={s} /> },
  { key: "made", header: "Made", cell: (s) => <><Time at={s.createTime} /><Text size="xs" c="dimmed"><Escaped text={s.createdBy} /></Text></> },
];

const busColumns: Column<Bus>[] = [
  { key: "bus", header: "Bus", cell: (b) => <Anchor component={Link} to={`/events/${encodeURIComponent(b.sink)}${b.dead > 0 ? "?state=dead" : ""}`} fw={600}>{b.sink}</Anchor> },
  { key: "state", header: "State", cell: (b) => <BusState of={b} /> },
];

/** Whether a subscription works, and what waits in it. */
export function SubscriptionState({ of: s }: { of: Subscription }) {
  return (
    <>
      {s.spec?.disabled ? <Chip tone="mute" icon={IconPlayerPause}>disabled; what there is waits</Chip>
        : s.dead > 0 ? <Chip tone="bad" icon={IconAlertTriangle}>{count(s.dead, "dead letter")}</Chip>
          : <Chip tone="good" icon={IconCircleCheck}>works</Chip>}
      {s.pending > 0 && <Text size="xs" c="dimmed">{count(s.pending, "delivery is", "deliveries are")} under way</Text>}
      {s.spec?.disabled && s.dead > 0 && <Text size="xs" c="dimmed">{count(s.dead, "dead letter")}</Text>}
    </>
  );
}

/** Who is told of changes, and whose events are taken in. */
export default function Events() {
  const { data, error, refetch } = useLive(EventService.method.listSubscriptions, {});
  const may = useMay();
  const [making, setMaking] = useState(false);
  return (
    <Page title="Events" actions={may(EventService.method.createSubscription) && <Button leftSection={<IconPlus size={16} />} onClick={() => setMaking(true)}>New subscription</Button>}>
      <Problem error={error} retry={() => void refetch()} />
      {!data && !error && <ListSkeleton />}
      {data && (data.subscriptions.length ? (
        <List caption="Subscriptions" columns={columns} rows={data.subscriptions} rowKey={(s) => s.subscriptionId} />
      ) : (
        <EmptyState kind="empty" title="Nobody is told of changes here yet">
          <Text size="sm">A subscription sends events of this tenant to a URL as signed CloudEvents. By the command line:</Text>
          <CopyCommand command="countersign events subscribe ID --url https://hooks.example/mcp --secret env:HOOK_SECRET" />
        </EmptyState>
      ))}
      {data && data.buses.length > 0 && (
        <section>
          <Title order={2} size="h4" mt="lg" mb="xs">Buses that did not get all of your events</Title>
          <List caption="Buses of the installation" columns={busColumns} rows={data.buses} rowKey={(b) => b.sink} />
        </section>
      )}
      {making && <NewSubscription onClose={() => setMaking(false)} />}
    </Page>
  );
}
