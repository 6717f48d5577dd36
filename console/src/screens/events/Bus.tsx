import { Card, Stack, Text, Title } from "@mantine/core";
import { IconAlertTriangle, IconCircleCheck, IconHourglass } from "@tabler/icons-react";

import { useLive } from "../../api/live";
import { type Bus as Of, EventService } from "../../gen/countersign/registry/v1/event_service_pb";
import { Chip } from "../../parts/Chip";
import { CopyMenu } from "../../parts/Copy";
import { ListSkeleton } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { count } from "../../parts/words";
import { Deliveries } from "./Deliveries";

/** Whether an id is that of a bus: ids of subscriptions have no dot. */
export const isBus = (id: string) => id.includes(".");

/** What of the tenant's events a bus has not got yet. */
export function BusState({ of: b }: { of: Pick<Of, "pending" | "dead"> }) {
  return (
    <>
      {b.dead > 0 ? <Chip tone="bad" icon={IconAlertTriangle}>{count(b.dead, "dead letter")}</Chip>
        : b.pending > 0 ? <Chip tone="mute" icon={IconHourglass}>it has not all yet</Chip>
          : <Chip tone="good" icon={IconCircleCheck}>nothing waits for it</Chip>}
      {b.pending > 0 && <Text size="xs" c="dimmed">{count(b.pending, "delivery is", "deliveries are")} under way</Text>}
    </>
  );
}

/** A bus of the installation: what became of this tenant's events on their way to it. */
export function Bus({ sink }: { sink: string }) {
  const { data, error, refetch } = useLive(EventService.method.listSubscriptions, {}, { every: 5_000 });
  const { pending = 0, dead = 0 } = data?.buses.find((b) => b.sink === sink) ?? {};
  return (
    <Page title={sink} up={[{ label: "Events", to: "/events" }]} actions={<CopyMenu id={sink} command={`countersign events deliveries ${sink}`} />}>
      <Problem error={error} retry={() => void refetch()} />
      {!data && !error && <ListSkeleton rows={4} />}
      {data && (
        <Stack>
          <Card withBorder>
            <dl className="facts">
              <dt>State</dt><dd><BusState of={{ pending, dead }} /></dd>
              <dt>What</dt><dd>A bus of the installation, which the operator configures. It gets the events of all tenants; here are those of yours.</dd>
            </dl>
          </Card>
          <section>
            <Title order={2} size="h4" mb="xs">Deliveries</Title>
            <Deliveries of={{ subscriptionId: sink, dead }} />
          </section>
        </Stack>
      )}
    </Page>
  );
}
