import { useMutation } from "@connectrpc/connect-query";
import { Button, Card, Code, Group, Stack, Title } from "@mantine/core";
import { IconPlayerPause, IconPlayerPlay, IconSend, IconTrash } from "@tabler/icons-react";
import { useState } from "react";
import { useNavigate, useParams } from "react-router";

import { useAction } from "../../api/action";
import { useLive } from "../../api/live";
import { problemOf } from "../../api/problem";
import { useMay } from "../../auth/me";
import { EventService, SubscriptionDirection, type Subscription as Of } from "../../gen/countersign/registry/v1/event_service_pb";
import { ConfirmByDryRun } from "../../parts/ConfirmByDryRun";
import { CopyMenu } from "../../parts/Copy";
import { EmptyState } from "../../parts/EmptyState";
import { Escaped } from "../../parts/Escaped";
import { ListSkeleton } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";
import { count } from "../../parts/words";
import { Bus, isBus } from "./Bus";
import { Deliveries } from "./Deliveries";
import { SubscriptionState } from "./Events";

const up = [{ label: "Events", to: "/events" }];

/** A subscription or a bus. */
export default function Receiver() {
  const { id = "" } = useParams();
  return isBus(id) ? <Bus key={id} sink={id} /> : <Subscription key={id} id={id} />;
}

/** One subscription: what it wants, and what became of each delivery. */
function Subscription({ id }: { id: string }) {
  const { data, error, refetch } = useLive(EventService.method.getSubscription, { subscriptionId: id }, { every: 5_000 });
  if (error && problemOf(error).notFound) {
    return <Page title={id} up={up}><EmptyState kind="missing" title="There is no such subscription" /></Page>;
  }
  const s = data?.subscription;
  return (
    <Page title={id} up={up} actions={s && <Actions of={s} />}>
      <Problem error={error} retry={() => void refetch()} />
      {!s && !error && <ListSkeleton rows={4} />}
      {s && (
        <Stack>
          <Card withBorder>
            <dl className="facts">
              <dt>State</dt><dd><SubscriptionState of={s} /></dd>
              {s.direction === SubscriptionDirection.RECEIVE
                ? <><dt>Receives at</dt><dd><Code>{s.receivePath}</Code></dd></>
                : <><dt>Sends to</dt><dd><Escaped text={s.spec?.url ?? ""} /></dd></>}
              <dt>Types</dt><dd>{s.spec?.types.join(", ") || "every type"}</dd>
              {s.direction === SubscriptionDirection.SEND && <><dt>Subjects</dt><dd>{s.spec?.subjects.join(", ") || "all"}</dd></>}
              <dt>Secret</dt><dd><Code>{s.spec?.secret}</Code>{s.spec?.previousSecret && <>, and until it is taken out <Code>{s.spec.previousSecret}</Code></>}</dd>
              {s.spec?.description && <><dt>What for</dt><dd><Escaped text={s.spec.description} /></dd></>}
              <dt>Made</dt><dd><Time at={s.createTime} /> by <Escaped text={s.createdBy} /></dd>
              <dt>Changed</dt><dd><Time at={s.updateTime} /></dd>
            </dl>
          </Card>
          {s.direction === SubscriptionDirection.SEND && (
            <section>
              <Title order={2} size="h4" mb="xs">Deliveries</Title>
              <Deliveries of={s} />
            </section>
          )}
        </Stack>
      )}
    </Page>
  );
}

function Actions({ of: s }: { of: Of }) {
  const may = useMay();
  const navigate = useNavigate();
  const [deleting, setDeleting] = useState(false);
  const test = useAction(EventService.method.testSubscription, { done: "A test event is on its way: it shows below" });
  const update = useAction(EventService.method.updateSubscription, { done: s.spec?.disabled ? "It is enabled" : "It is disabled" });
  const dry = useMutation(EventService.method.deleteSubscription);
  const remove = useAction(EventService.method.deleteSubscription, { done: "The subscription is deleted", then: () => void navigate("/events") });
  return (
    <>
      <CopyMenu id={s.subscriptionId} command={`countersign events deliveries ${s.subscriptionId}`} />
      {s.direction === SubscriptionDirection.SEND && may(EventService.method.testSubscription) && (
        <Button variant="default" leftSection={<IconSend size={16} />} loading={test.isPending} onClick={() => test.mutate({ subscriptionId: s.subscriptionId })}>Send a test</Button>
      )}
      {may(EventService.method.updateSubscription) && (
        <Button
          variant="default" loading={update.isPending} leftSection={s.spec?.disabled ? <IconPlayerPlay size={16} /> : <IconPlayerPause size={16} />}
          onClick={() => update.mutate({ subscriptionId: s.subscriptionId, spec: { disabled: !s.spec?.disabled }, updateMask: { paths: ["disabled"] }, etag: s.etag })}
        >{s.spec?.disabled ? "Enable" : "Disable"}</Button>
      )}
      {may(EventService.method.deleteSubscription) && <Button variant="default" leftSection={<IconTrash size={16} />} onClick={() => { setDeleting(true); dry.mutate({ subscriptionId: s.subscriptionId, etag: s.etag, dryRun: true }); }}>Delete</Button>}
      <Group w="100%"><Problem error={test.error ?? update.error} /></Group>
      {deleting && (
        <ConfirmByDryRun
          opened onClose={() => setDeleting(false)} title={`Delete ${s.subscriptionId}`} verb="Delete it" loading={dry.isPending} dryRunError={dry.error} pending={remove.isPending} error={remove.error}
          touches={dry.data && <>{count(dry.data.subscription?.pending ?? 0, "delivery", "deliveries")} under way and {count(dry.data.subscription?.dead ?? 0, "dead letter")} go with it, and the log of all deliveries. The events themselves stay.</>}
          onConfirm={() => remove.mutate({ subscriptionId: s.subscriptionId, etag: s.etag })}
        />
      )}
    </>
  );
}
