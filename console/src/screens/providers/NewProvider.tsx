import { Button, Group, Modal, Select, Stack, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import { useNavigate } from "react-router";

import { useAction } from "../../api/action";
import { ToolProviderService } from "../../gen/countersign/registry/v1/tool_provider_service_pb";
import { McpAuthentication } from "../../gen/countersign/registry/v1/types_pb";
import { Problem } from "../../parts/Problem";
import { authenticationWord } from "../../parts/words";

const ways = [McpAuthentication.OAUTH2_PROTECTED_RESOURCE, McpAuthentication.WORKLOAD_IDENTITY, McpAuthentication.NONE_EXCEPTION];

/** A form for an agent extension: its descriptor is fetched, and the servers that it declares are registered. */
export function NewProvider({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const [way, setWay] = useState<McpAuthentication>(McpAuthentication.OAUTH2_PROTECTED_RESOURCE);
  const [of, setOf] = useState({ name: "", baseUrl: "", extensionId: "", description: "", exceptionReason: "" });
  const create = useAction(ToolProviderService.method.createToolProvider, {
    done: "The provider is made; its first refresh is under way", then: ({ provider }) => void navigate(`/providers/${encodeURIComponent(provider!.name)}`),
  });
  const field = (name: keyof typeof of) => ({ value: of[name], onChange: (e: { currentTarget: { value: string } }) => setOf({ ...of, [name]: e.currentTarget.value }) });
  return (
    <Modal opened onClose={onClose} title="New extension" size="lg" closeButtonProps={{ "aria-label": "Close" }}>
      <form onSubmit={(e) => {
        e.preventDefault();
        create.mutate({
          name: of.name.trim(), description: of.description.trim(), config: {
            case: "aep", value: {
              baseUrl: of.baseUrl.trim(), extensionId: of.extensionId.trim(), authentication: way,
              exceptionReason: way === McpAuthentication.NONE_EXCEPTION ? of.exceptionReason.trim() : "",
            },
          },
        });
      }}>
        <Stack>
          <TextInput label="Name" required description="a-z, 0-9, - and _" data-autofocus {...field("name")} />
          <TextInput label="URL of the extension" required type="url" placeholder="https://ext.example" description="Its descriptor is at /.well-known/aep of it" {...field("baseUrl")} />
          <TextInput label="Extension id" required description="What the descriptor must name" placeholder="countersign.utilities" {...field("extensionId")} />
          <Select label="How its servers authenticate us" allowDeselect={false} data={ways.map((w) => ({ value: String(w), label: authenticationWord[w] }))} value={String(way)} onChange={(v) => setWay(Number(v))} />
          {way === McpAuthentication.NONE_EXCEPTION && <TextInput label="Why without authentication" required {...field("exceptionReason")} />}
          <Textarea label="What it is for" autosize {...field("description")} />
          <Problem error={create.error} />
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>Cancel</Button>
            <Button type="submit" loading={create.isPending}>Make the provider</Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
