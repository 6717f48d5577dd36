import { Text, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";

import { useAction } from "../../api/action";
import { McpServerService } from "../../gen/countersign/registry/v1/mcp_server_service_pb";
import { type McpServer, McpTransport } from "../../gen/countersign/registry/v1/types_pb";
import { CommandName } from "../../parts/CommandName";
import { Edit, labelsOf } from "../../parts/Edit";
import { count } from "../../parts/words";

type Field = "description" | "owner" | "labels" | "product_version" | "governance_policy_ref" | "endpoint_url" | "dial_address" | "endpoint_ref" | "command_ref";
type Values = Record<Field, string>;

const words: Values = {
  description: "what it is for", owner: "its owner", labels: "its labels", product_version: "the version of the product", governance_policy_ref: "its policy",
  endpoint_url: "its URL", dial_address: "where it is dialled", endpoint_ref: "its connection", command_ref: "its command",
};
/** Another target is another server: nothing that was approved holds for it. */
const targets: Field[] = ["endpoint_url", "dial_address", "endpoint_ref", "command_ref"];

const valuesOf = (s: McpServer): Values => ({
  description: s.description, owner: s.owner, labels: Object.entries(s.labels).sort().map(([k, v]) => `${k}=${v}`).join("\n"), product_version: s.productVersion, governance_policy_ref: s.governancePolicyRef,
  endpoint_url: s.endpointUrl, dial_address: s.dialAddress, endpoint_ref: s.endpointRef.split("@")[0] ?? "", command_ref: s.commandRef,
});

/** Changes what people say of a server, and where it is. */
export function EditServer({ of: now, onClose }: { of: McpServer; onClose: () => void }) {
  const [loaded, setLoaded] = useState(now);
  const [of, setOf] = useState(() => valuesOf(now));
  const update = useAction(McpServerService.method.updateMcpServer, { done: `${now.name} is changed`, then: onClose });
  const before = valuesOf(loaded);
  const fields = (Object.keys(of) as Field[]).filter((f) => of[f].trim() !== before[f]);
  const field = (name: Field) => ({ value: of[name], onChange: (e: { currentTarget: { value: string } }) => setOf({ ...of, [name]: e.currentTarget.value }) });
  const elsewhere = fields.some((f) => targets.includes(f));
  const bound = loaded.counts?.boundTools ?? 0;
  return (
    <Edit
      title={`Edit ${now.name}`} onClose={onClose} changed={fields.map((f) => words[f])} pending={update.isPending} error={update.error}
      then={<>
        {elsewhere && <Text size="sm" fw={600}>{count(bound, "tool")} bound now {bound === 1 ? "is" : "are"} unbound, and {loaded.transport === McpTransport.STDIO ? "the launch of another command waits for an approval" : "it is discovered again"}: what was approved was approved of another target.</Text>}
        {fields.includes("governance_policy_ref") && <Text size="sm">The new policy says what its approvals need, and what stays bound.</Text>}
        {!elsewhere && !fields.includes("governance_policy_ref") && <Text size="sm">Nothing is unbound by it.</Text>}
      </>}
      onSave={() => update.mutate({
        serverId: loaded.serverId, etag: loaded.etag, updateMask: { paths: fields }, server: {
          description: of.description.trim(), owner: of.owner.trim(), labels: labelsOf(of.labels), productVersion: of.product_version.trim(), governancePolicyRef: of.governance_policy_ref.trim(),
          endpointUrl: of.endpoint_url.trim(), dialAddress: of.dial_address.trim(), endpointRef: of.endpoint_ref.trim(), commandRef: of.command_ref.trim(),
        },
      })}
      onTheirs={() => { setLoaded(now); setOf(valuesOf(now)); update.reset(); }}
      onMine={() => { setOf({ ...valuesOf(now), ...Object.fromEntries(fields.map((f) => [f, of[f]])) }); setLoaded(now); update.reset(); }}
    >
      <Textarea label="What it is for" autosize {...field("description")} data-autofocus />
      <TextInput label="Owner" {...field("owner")} />
      <Textarea label="Labels" description="key=value, one on each line" autosize {...field("labels")} />
      <TextInput label="Version of the product" {...field("product_version")} />
      <TextInput label="Policy" required {...field("governance_policy_ref")} />
      {loaded.transport === McpTransport.STDIO ? <CommandName value={of.command_ref} onChange={(name) => setOf({ ...of, command_ref: name })} />
        : loaded.endpointRef ? <TextInput label="Connection" required {...field("endpoint_ref")} />
          : <><TextInput label="URL" required type="url" {...field("endpoint_url")} /><TextInput label="Dialled at" description="Empty: where the URL says" {...field("dial_address")} /></>}
    </Edit>
  );
}
