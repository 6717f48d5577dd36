import { Button, Group, Modal, SegmentedControl, Stack, TagsInput, Text, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import { useNavigate } from "react-router";

import { useAction } from "../../api/action";
import { EventService, SubscriptionDirection } from "../../gen/countersign/registry/v1/event_service_pb";
import { Problem } from "../../parts/Problem";

/** A form for a subscription. The secret is a reference: its value is never here. */
export function NewSubscription({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const [way, setWay] = useState("send");
  const [of, setOf] = useState({ subscriptionId: "", url: "", description: "", secret: "" });
  const [types, setTypes] = useState<string[]>([]);
  const [subjects, setSubjects] = useState<string[]>([]);
  const create = useAction(EventService.method.createSubscription, {
    done: "The subscription is made", then: ({ subscription }) => void navigate(`/events/${encodeURIComponent(subscription!.subscriptionId)}`),
  });
  const field = (name: keyof typeof of) => ({ value: of[name], onChange: (e: { currentTarget: { value: string } }) => setOf({ ...of, [name]: e.currentTarget.value }) });
  const sends = way === "send";
  return (
    <Modal opened onClose={onClose} title="New subscription" size="lg" closeButtonProps={{ "aria-label": "Close" }}>
      <form onSubmit={(e) => {
        e.preventDefault();
        create.mutate({
          subscriptionId: of.subscriptionId.trim(), direction: sends ? SubscriptionDirection.SEND : SubscriptionDirection.RECEIVE,
          spec: { url: sends ? of.url.trim() : "", description: of.description.trim(), secret: of.secret.trim(), types, subjects: sends ? subjects : [] },
        });
      }}>
        <Stack>
          <SegmentedControl aria-label="Direction" value={way} onChange={setWay} data={[{ value: "send", label: "Send to a webhook" }, { value: "receive", label: "Receive from others" }]} />
          <TextInput label="Id" required description="a-z, 0-9, - and _" data-autofocus {...field("subscriptionId")} />
          {sends && <TextInput label="URL" required type="url" placeholder="https://hooks.example/mcp" {...field("url")} />}
          <TextInput label="Secret" required description="A reference to the secret that signs, never the secret itself" placeholder="env:HOOK_SECRET" {...field("secret")} />
          <TagsInput label="Types" description="None means every type" value={types} onChange={setTypes} />
          {sends && <TagsInput label="Subjects" description="Ids of servers, or kind/name. None means all" value={subjects} onChange={setSubjects} />}
          <Textarea label="What it is for" autosize {...field("description")} />
          {sends && <Text size="sm" c="dimmed">It gets what happens from now on. What happened before can be replayed to it.</Text>}
          <Problem error={create.error} />
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>Cancel</Button>
            <Button type="submit" loading={create.isPending}>Make the subscription</Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
