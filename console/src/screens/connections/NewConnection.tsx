import { Button, Group, Modal, Select, Stack, TagsInput, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import { useNavigate } from "react-router";

import { useAction } from "../../api/action";
import { ConnectionAuthKind, ConnectionService } from "../../gen/countersign/registry/v1/connection_service_pb";
import { Problem } from "../../parts/Problem";
import { authWord } from "./words";

const kinds = [ConnectionAuthKind.NONE, ConnectionAuthKind.HEADERS, ConnectionAuthKind.CLIENT_CREDENTIALS, ConnectionAuthKind.PRIVATE_KEY_JWT, ConnectionAuthKind.WORKLOAD_IDENTITY];

/** A form for a connection; the rarer ways to a token are the command line's. */
export function NewConnection({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const [kind, setKind] = useState<ConnectionAuthKind>(ConnectionAuthKind.NONE);
  const [of, setOf] = useState({ name: "", baseUrl: "", description: "", issuer: "", clientId: "", secretRef: "", header: "Authorization", headerRef: "" });
  const [scopes, setScopes] = useState<string[]>([]);
  const create = useAction(ConnectionService.method.createConnection, {
    done: "The connection is made", then: ({ connection }) => void navigate(`/connections/${encodeURIComponent(connection!.name)}`),
  });
  const field = (name: keyof typeof of) => ({ value: of[name], onChange: (e: { currentTarget: { value: string } }) => setOf({ ...of, [name]: e.currentTarget.value }) });
  const issued = kind === ConnectionAuthKind.CLIENT_CREDENTIALS || kind === ConnectionAuthKind.PRIVATE_KEY_JWT;
  return (
    <Modal opened onClose={onClose} title="New connection" size="lg" closeButtonProps={{ "aria-label": "Close" }}>
      <form onSubmit={(e) => {
        e.preventDefault();
        create.mutate({
          name: of.name.trim(), spec: {
            baseUrl: of.baseUrl.trim(), description: of.description.trim(), authKind: kind,
            ...(kind === ConnectionAuthKind.HEADERS && { headers: { [of.header.trim()]: of.headerRef.trim() } }),
            ...(issued && { issuer: of.issuer.trim(), clientId: of.clientId.trim(), secretRef: of.secretRef.trim(), scopes }),
          },
        });
      }}>
        <Stack>
          <TextInput label="Name" required description="a-z, 0-9, - and _" data-autofocus {...field("name")} />
          <TextInput label="URL of the server" required type="url" placeholder="https://wiki.example/mcp" {...field("baseUrl")} />
          <Select label="As whom" allowDeselect={false} data={kinds.map((k) => ({ value: String(k), label: authWord[k] }))} value={String(kind)} onChange={(v) => setKind(Number(v))} />
          {kind === ConnectionAuthKind.HEADERS && (
            <Group grow align="flex-start">
              <TextInput label="Header field" required {...field("header")} />
              <TextInput label="Its value" required description="A reference, never the secret itself" placeholder="env:WIKI_BEARER" {...field("headerRef")} />
            </Group>
          )}
          {issued && (
            <>
              <TextInput label="Issuer" required type="url" {...field("issuer")} />
              <TextInput label="Client id" required {...field("clientId")} />
              <TextInput label={kind === ConnectionAuthKind.PRIVATE_KEY_JWT ? "Key" : "Secret"} required description="A reference, never the secret itself" placeholder="env:WIKI_SECRET" {...field("secretRef")} />
              <TagsInput label="Scopes" value={scopes} onChange={setScopes} />
            </>
          )}
          <Textarea label="What it is for" autosize {...field("description")} />
          <Problem error={create.error} />
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>Cancel</Button>
            <Button type="submit" loading={create.isPending}>Make the connection</Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
