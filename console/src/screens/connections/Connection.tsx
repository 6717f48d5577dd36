import { useMutation } from "@connectrpc/connect-query";
import { Alert, Anchor, Button, Card, Code, Stack, Title } from "@mantine/core";
import { IconPencil, IconPlugConnected, IconTrash } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";
import { Link, useNavigate, useParams } from "react-router";

import { useAction } from "../../api/action";
import { useLive } from "../../api/live";
import { problemOf } from "../../api/problem";
import { usePaging } from "../../app/url";
import { useMay } from "../../auth/me";
import { ConnectionAuthKind, type Connection as Of, ConnectionService } from "../../gen/countersign/registry/v1/connection_service_pb";
import { ConfirmByDryRun } from "../../parts/ConfirmByDryRun";
import { CopyMenu } from "../../parts/Copy";
import { EmptyState } from "../../parts/EmptyState";
import { Escaped } from "../../parts/Escaped";
import { type Column, List, ListSkeleton, Pager } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";
import { count } from "../../parts/words";
import { EditConnection } from "./EditConnection";
import { TestReport } from "./TestReport";
import { authWord } from "./words";

const up = [{ label: "Connections", to: "/connections" }];

/** One connection: what it says, who uses it, whether it works, and what it was. */
export default function Connection() {
  const { name = "" } = useParams();
  const { data, error, refetch } = useLive(ConnectionService.method.getConnection, { name });
  const test = useAction(ConnectionService.method.testConnection);
  if (error && problemOf(error).notFound) {
    return <Page title={name} up={up}><EmptyState kind="missing" title="There is no such connection" /></Page>;
  }
  const c = data?.connection;
  return (
    <Page title={name} up={up} actions={c && <Actions of={c} test={() => test.mutate({ name: c.name })} testing={test.isPending} />}>
      <Problem error={error} retry={() => void refetch()} />
      {!c && !error && <ListSkeleton rows={4} />}
      {c && (
        <Stack>
          {c.deleted && <Alert color="red" variant="outline" title="This connection is deleted" />}
          {c.warnings.map((w) => <Alert key={w} color="yellow" variant="outline" title={w} />)}
          <Problem error={test.error} title="It could not be tried" />
          {test.data?.report && <Card withBorder component="section"><Title order={2} size="h4" mb="xs">The test just now</Title><TestReport of={test.data.report} /></Card>}
          <Card withBorder><Spec of={c} /></Card>
          <section>
            <Title order={2} size="h4" mb="xs">Versions</Title>
            <Versions name={c.name} />
          </section>
        </Stack>
      )}
    </Page>
  );
}

function Spec({ of: c }: { of: Of }) {
  const s = c.spec;
  if (!s) return null;
  const rows: [string, ReactNode][] = [
    ["URL", <Escaped text={s.baseUrl} />],
    ["Dialled at", s.dialAddress],
    ["As whom", authWord[s.authKind]],
    ["Issuer", s.issuer], ["Client id", s.clientId], ["Secret", s.secretRef && <Code>{s.secretRef}</Code>],
    ["Scopes", s.scopes.join(", ")], ["Further scopes", s.stepUpScopes.join(", ")], ["Token endpoint", s.tokenEndpoint],
    ["Header fields", s.authKind === ConnectionAuthKind.HEADERS && Object.entries(s.headers).map(([k, v]) => <div key={k}>{k}: <Code>{v}</Code></div>)],
    ["Networks", s.allowedNetworks.join(", ")],
    ["Certificate", s.clientCertificateRef && <Code>{s.clientCertificateRef}</Code>],
    ["Authorities", s.caBundle && "its own, instead of the machine's"],
    ["What for", s.description && <Escaped text={s.description} />],
    ["Used by", <Anchor component={Link} size="sm" to={`/servers?connection=${encodeURIComponent(c.name)}`}>{count(c.users, "server")}</Anchor>],
    ["Version", <>{c.version}, made <Time at={c.createTime} /> by <Escaped text={c.createdBy} /></>],
  ];
  return <dl className="facts">{rows.filter(([, value]) => value).map(([key, value]) => [<dt key={key}>{key}</dt>, <dd key={`${key} is`}>{value}</dd>])}</dl>;
}

const columns: Column<Of>[] = [
  { key: "version", header: "Version", cell: (v) => `${v.version}${v.newest ? ", newest" : ""}` },
  { key: "url", header: "URL", cell: (v) => <Escaped text={v.spec?.baseUrl ?? ""} /> },
  { key: "auth", header: "As whom", cell: (v) => (v.deleted ? "deleted" : authWord[v.spec?.authKind ?? 0]) },
  { key: "servers", header: "Pinned by", cell: (v) => count(v.servers, "server") },
  { key: "made", header: "Made", cell: (v) => <><Time at={v.createTime} /> by <Escaped text={v.createdBy} /></> },
];

function Versions({ name }: { name: string }) {
  const paging = usePaging();
  const { data, error, isPlaceholderData } = useLive(ConnectionService.method.listConnectionVersions, { name, pageSize: 50, pageToken: paging.token });
  return (
    <>
      <Problem error={error} />
      {data && <List caption="Versions" columns={columns} rows={data.versions} rowKey={(v) => String(v.version)} stale={isPlaceholderData} />}
      {data && <Pager paging={paging} next={data.nextPageToken} shown={data.versions.length} total={data.totalSize} noun="version" />}
    </>
  );
}

function Actions({ of: c, test, testing }: { of: Of; test: () => void; testing: boolean }) {
  const may = useMay();
  const navigate = useNavigate();
  const [deleting, setDeleting] = useState(false);
  const [editing, setEditing] = useState(false);
  const dry = useMutation(ConnectionService.method.deleteConnection);
  const remove = useAction(ConnectionService.method.deleteConnection, { done: "The connection is deleted", then: () => void navigate("/connections") });
  return (
    <>
      <CopyMenu id={c.ref} command={`countersign connection describe ${c.name}`} />
      {may(ConnectionService.method.testConnection) && !c.deleted && <Button leftSection={<IconPlugConnected size={16} />} loading={testing} onClick={test}>Test</Button>}
      {may(ConnectionService.method.updateConnection) && !c.deleted && <Button variant="default" leftSection={<IconPencil size={16} />} onClick={() => setEditing(true)}>Edit</Button>}
      {editing && <EditConnection of={c} onClose={() => setEditing(false)} />}
      {may(ConnectionService.method.deleteConnection) && !c.deleted && <Button variant="default" leftSection={<IconTrash size={16} />} onClick={() => { setDeleting(true); dry.mutate({ name: c.name, etag: c.etag, dryRun: true }); }}>Delete</Button>}
      {deleting && (
        <ConfirmByDryRun
          opened onClose={() => setDeleting(false)} title={`Delete ${c.name}`} verb="Delete it" loading={dry.isPending} dryRunError={dry.error} pending={remove.isPending} error={remove.error}
          touches={dry.data && <>No live server uses it. {count(dry.data.connection?.version ?? 0, "version stays", "versions stay")}, for what was approved under them.</>}
          onConfirm={() => remove.mutate({ name: c.name, etag: c.etag })}
        />
      )}
    </>
  );
}
