import { Button, Code, Group, Modal, Select, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { IconArchive, IconCircleCheck, IconHourglass, IconPlus } from "@tabler/icons-react";
import { useState } from "react";

import { useAction } from "../../api/action";
import { all, quote } from "../../api/filter";
import { useLive } from "../../api/live";
import { usePaging, useParams } from "../../app/url";
import { useMay } from "../../auth/me";
import { ToolCatalogService, type ToolDescriptor, ToolDescriptorStatus } from "../../gen/countersign/registry/v1/tool_catalog_service_pb";
import { SideEffectClass } from "../../gen/countersign/registry/v1/types_pb";
import { Chip, ClassChip, Health } from "../../parts/Chip";
import { ConfirmByDryRun } from "../../parts/ConfirmByDryRun";
import { EmptyState } from "../../parts/EmptyState";
import { Escaped } from "../../parts/Escaped";
import { type Column, List, ListSkeleton, Pager } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { Search } from "../../parts/Search";
import { Time } from "../../parts/Time";
import { classWord, count } from "../../parts/words";

const m = ToolCatalogService.method;
const classes = [SideEffectClass.READ, SideEffectClass.SANDBOX, SideEffectClass.SHARED_WRITE, SideEffectClass.PUBLICATION];

function Status({ of: d }: { of: ToolDescriptor }) {
  switch (d.status) {
    case ToolDescriptorStatus.DRAFT: return <Chip tone="warn" icon={IconHourglass}>draft</Chip>;
    case ToolDescriptorStatus.PUBLISHED: return <Chip tone="good" icon={IconCircleCheck}>published</Chip>;
    case ToolDescriptorStatus.DEPRECATED: return <Chip tone="mute" icon={IconArchive}>deprecated</Chip>;
    default: return <>unknown</>;
  }
}

/** The last of what happened to a version. */
function Last({ of: d }: { of: ToolDescriptor }) {
  if (d.deprecateTime) return <>deprecated <Time at={d.deprecateTime} /> by <Escaped text={d.deprecatedBy} /></>;
  if (d.publishTime) return <>published <Time at={d.publishTime} /> by <Escaped text={d.publishedBy} /></>;
  return <>drafted <Time at={d.createTime} /> by <Escaped text={d.createdBy} /></>;
}

const columns: Column<ToolDescriptor>[] = [
  {
    key: "id", header: "Descriptor", cell: (d) => (
      <>
        <Text size="sm" fw={600} className="wrap">{d.descriptorId} {d.version.toString()}</Text>
        {d.description && <Text size="xs" c="dimmed"><Escaped text={d.description} max={300} /></Text>}
      </>
    ),
  },
  { key: "class", header: "Class", cell: (d) => <ClassChip value={d.class} /> },
  { key: "status", header: "State", cell: (d) => <><Status of={d} />{d.status === ToolDescriptorStatus.PUBLISHED && !d.active && <Text size="xs">inactive: every server of its tools is retired</Text>}</> },
  { key: "health", header: "How well", cell: (d) => (d.tools ? <Health health={d.health} summary={false} /> : "no tool is bound to it") },
  { key: "tools", header: "Tools", cell: (d) => d.tools.toLocaleString(), className: "number" },
  { key: "from", header: "Last", cell: (d) => <><Last of={d} /><Text size="xs" c="dimmed">{d.serverId ? <>by an approval of <Code>{d.serverId}</Code></> : "drafted by people"}</Text></> },
];

/** What approvals bind tools to: every version of it, none of which changes but for where it stands. */
export default function Descriptors() {
  const [params, set] = useParams();
  const paging = usePaging();
  const may = useMay();
  const [drafting, setDrafting] = useState(false);
  const [asking, setAsking] = useState<{ of: ToolDescriptor; what: "publish" | "deprecate" }>();
  const [id, status] = [params.get("id") ?? "", params.get("status") ?? ""];
  const filter = all(id && `descriptor_id = ${quote(id)}`, status && `status = ${quote(status)}`);
  const { data, error, isPlaceholderData, refetch } = useLive(m.listToolDescriptors, { filter, pageSize: 50, pageToken: paging.token });
  const action: Column<ToolDescriptor> = {
    key: "do", header: <span className="unseen-text">Action</span>, label: "", cell: (d) => (
      d.status === ToolDescriptorStatus.DRAFT && may(m.publishToolDescriptor) ? <Button size="compact-sm" variant="default" onClick={() => setAsking({ of: d, what: "publish" })}>Publish</Button>
        : d.status === ToolDescriptorStatus.PUBLISHED && may(m.deprecateToolDescriptor) ? <Button size="compact-sm" variant="default" onClick={() => setAsking({ of: d, what: "deprecate" })}>Deprecate</Button> : null
    ),
  };
  return (
    <Page title="Descriptors" actions={may(m.createToolDescriptor) && <Button leftSection={<IconPlus size={16} />} onClick={() => setDrafting(true)}>New draft</Button>}>
      <Text size="sm">A version never changes. To say something else, draft the next one; what is bound to an older one stays so.</Text>
      <Group gap="xs">
        <Search label="Id of a descriptor" value={id} onChange={(v) => set({ id: v })} />
        <Select aria-label="State" placeholder="Every state" clearable clearButtonProps={{ "aria-label": "Every state" }} data={["draft", "published", "deprecated"]} value={status || null} onChange={(v) => set({ status: v ?? "" })} w={170} />
      </Group>
      <Problem error={error} retry={() => void refetch()} />
      {!data && !error && <ListSkeleton />}
      {data && (data.descriptors.length ? (
        <>
          <List caption="Versions of descriptors" columns={[...columns, action]} rows={data.descriptors} rowKey={(d) => `${d.descriptorId} ${d.version}`} stale={isPlaceholderData} />
          <Pager paging={paging} next={data.nextPageToken} shown={data.descriptors.length} total={data.totalSize} noun="version" />
        </>
      ) : filter ? <EmptyState kind="no-match" title="No descriptor matches"><Button variant="default" onClick={() => set({ id: "", status: "" })}>Clear the filters</Button></EmptyState>
        : <EmptyState kind="empty" title="There is no descriptor yet"><Text size="sm">The approval of a tool publishes one; or draft one that approvals can name.</Text></EmptyState>)}
      {drafting && <Draft onClose={() => setDrafting(false)} />}
      {asking && <Change {...asking} onClose={() => setAsking(undefined)} />}
    </Page>
  );
}

function Draft({ onClose }: { onClose: () => void }) {
  const [id, setId] = useState("");
  const [kind, setKind] = useState<SideEffectClass>(SideEffectClass.READ);
  const [description, setDescription] = useState("");
  const create = useAction(m.createToolDescriptor, { done: ({ descriptor: d }) => `${d?.descriptorId} ${d?.version} is drafted`, then: onClose });
  return (
    <Modal opened onClose={onClose} title="New draft" size="lg" closeButtonProps={{ "aria-label": "Close" }}>
      <form onSubmit={(e) => { e.preventDefault(); create.mutate({ descriptorId: id.trim(), class: kind, description: description.trim() }); }}>
        <Stack>
          <TextInput label="Id" required description="Letters, digits, dots, hyphens and underscores. Of one that there is, it is the next version" value={id} onChange={(e) => setId(e.currentTarget.value)} data-autofocus />
          <Select label="Class" description="What a tool that is bound to it may do" allowDeselect={false} data={classes.map((c) => ({ value: String(c), label: classWord[c] }))} value={String(kind)} onChange={(v) => setKind(Number(v))} />
          <Textarea label="What it is" autosize minRows={2} maxLength={4096} value={description} onChange={(e) => setDescription(e.currentTarget.value)} />
          <Problem error={create.error} />
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>Cancel</Button>
            <Button type="submit" loading={create.isPending}>Draft it</Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

function Change({ of: d, what, onClose }: { of: ToolDescriptor; what: "publish" | "deprecate"; onClose: () => void }) {
  const name = `${d.descriptorId} ${d.version}`;
  const publish = useAction(m.publishToolDescriptor, { done: `${name} is published`, then: onClose });
  const deprecate = useAction(m.deprecateToolDescriptor, { done: `${name} is deprecated`, then: onClose });
  const action = what === "publish" ? publish : deprecate;
  return (
    <ConfirmByDryRun
      opened onClose={onClose} title={what === "publish" ? `Publish ${name}` : `Deprecate ${name}`} verb={what === "publish" ? "Publish it" : "Deprecate it"} danger={what === "deprecate"}
      loading={false} pending={action.isPending} error={action.error}
      touches={what === "publish" ? <>Approvals can name it from now on, as {classWord[d.class]}. It cannot be changed any more, and not become a draft again.</>
        : <>Approvals cannot name it any more, for ever. {d.tools ? <>{count(d.tools, "tool")} bound to it {d.tools === 1 ? "stays" : "stay"} so.</> : "No tool is bound to it."}</>}
      onConfirm={() => action.mutate({ descriptorId: d.descriptorId, version: d.version })}
    />
  );
}
