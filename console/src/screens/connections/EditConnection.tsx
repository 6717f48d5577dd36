import { TagsInput, Text, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";

import { useAction } from "../../api/action";
import { type Connection, ConnectionAuthKind, ConnectionService } from "../../gen/countersign/registry/v1/connection_service_pb";
import { Edit } from "../../parts/Edit";
import { count } from "../../parts/words";

type Field = "base_url" | "dial_address" | "issuer" | "client_id" | "secret_ref" | "description";
type Values = Record<Field, string> & { scopes: string[] };

const words = { base_url: "its URL", dial_address: "where it is dialled", issuer: "the issuer", client_id: "the client id", secret_ref: "the reference to the secret", description: "what it is for", scopes: "the scopes" };

const valuesOf = ({ spec: s }: Connection): Values => ({
  base_url: s?.baseUrl ?? "", dial_address: s?.dialAddress ?? "", issuer: s?.issuer ?? "", client_id: s?.clientId ?? "", secret_ref: s?.secretRef ?? "", description: s?.description ?? "", scopes: s?.scopes ?? [],
});

/** Makes the next version of a connection; the rarer fields are the command line's. */
export function EditConnection({ of: now, onClose }: { of: Connection; onClose: () => void }) {
  const [loaded, setLoaded] = useState(now);
  const [of, setOf] = useState(() => valuesOf(now));
  const update = useAction(ConnectionService.method.updateConnection, { done: `${now.name} is changed`, then: onClose });
  const before = valuesOf(loaded);
  const fields = (Object.keys(of) as (keyof Values)[]).filter((f) => (f === "scopes" ? of.scopes.join(" ") !== before.scopes.join(" ") : of[f].trim() !== before[f]));
  const field = (name: Field) => ({ value: of[name], onChange: (e: { currentTarget: { value: string } }) => setOf({ ...of, [name]: e.currentTarget.value }) });
  const kind = loaded.spec?.authKind;
  const issued = kind === ConnectionAuthKind.CLIENT_CREDENTIALS || kind === ConnectionAuthKind.PRIVATE_KEY_JWT;
  return (
    <Edit
      title={`Edit ${now.name}`} onClose={onClose} changed={fields.map((f) => words[f])} pending={update.isPending} error={update.error}
      then={<Text size="sm">It becomes version {loaded.version + 1}. {count(loaded.users, "server uses", "servers use")} it and {loaded.users === 1 ? "takes" : "take"} that. {fields.some((f) => f !== "description") ? "Everything approved of them is unbound, since it was approved of another target, and they are discovered again." : "Nothing is unbound by it."}</Text>}
      onSave={() => update.mutate({
        name: loaded.name, etag: loaded.etag, updateMask: { paths: fields }, spec: {
          baseUrl: of.base_url.trim(), dialAddress: of.dial_address.trim(), issuer: of.issuer.trim(), clientId: of.client_id.trim(), secretRef: of.secret_ref.trim(), description: of.description.trim(), scopes: of.scopes,
        },
      })}
      onTheirs={() => { setLoaded(now); setOf(valuesOf(now)); update.reset(); }}
      onMine={() => { setOf({ ...valuesOf(now), ...Object.fromEntries(fields.map((f) => [f, of[f]])) }); setLoaded(now); update.reset(); }}
    >
      <Textarea label="What it is for" autosize {...field("description")} data-autofocus />
      <TextInput label="URL of the server" required type="url" {...field("base_url")} />
      <TextInput label="Dialled at" description="Empty: where the URL says" {...field("dial_address")} />
      {issued && (
        <>
          <TextInput label="Issuer" required type="url" {...field("issuer")} />
          <TextInput label="Client id" required {...field("client_id")} />
          <TextInput label={kind === ConnectionAuthKind.PRIVATE_KEY_JWT ? "Key" : "Secret"} required description="A reference, never the secret itself" {...field("secret_ref")} />
          <TagsInput label="Scopes" value={of.scopes} onChange={(scopes) => setOf({ ...of, scopes })} />
        </>
      )}
    </Edit>
  );
}
