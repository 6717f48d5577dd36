import { Anchor, Button, Text } from "@mantine/core";
import { IconCircleCheck, IconArchive, IconPlus } from "@tabler/icons-react";
import { Link } from "react-router";

import { useLive } from "../../api/live";
import { usePaging, useParam } from "../../app/url";
import { useMay } from "../../auth/me";
import { type Policy, PolicyService } from "../../gen/countersign/registry/v1/policy_service_pb";
import { Chip } from "../../parts/Chip";
import { EmptyState } from "../../parts/EmptyState";
import { Escaped } from "../../parts/Escaped";
import { type Column, List, ListSkeleton, Pager } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";
import { count } from "../../parts/words";

/** The address of a bundle, by its name and version. */
export const addressOf = (p: Policy) => `/policies/${encodeURIComponent(p.builtIn ? p.name : `${p.name}@${p.version}`)}`;

const columns: Column<Policy>[] = [
  {
    key: "name", header: "Bundle", cell: (p) => (
      <>
        <Anchor component={Link} to={addressOf(p)} fw={600}>{p.name}</Anchor>
        {p.description && <Text size="xs" c="dimmed"><Escaped text={p.description} max={300} /></Text>}
      </>
    ),
  },
  { key: "version", header: "Version", cell: (p) => (p.builtIn ? "built in" : p.version), className: "number" },
  { key: "state", header: "State", cell: (p) => (p.newest ? <Chip tone="good" icon={IconCircleCheck}>newest</Chip> : <Chip tone="mute" icon={IconArchive}>superseded</Chip>) },
  { key: "servers", header: "Governs", cell: (p) => <Anchor component={Link} size="sm" to="/servers">{count(p.servers, "server")}</Anchor> },
  { key: "rules", header: "Rules", cell: (p) => <>{count(p.rules, "rule")}, {count(p.tests, "test")}</> },
  { key: "published", header: "Published", cell: (p) => (p.publishTime ? <><Time at={p.publishTime} /><Text size="xs" c="dimmed"><Escaped text={p.publishedBy} /></Text></> : "with the program") },
];

/** The policies that govern approvals, drift and calls, by bundle. */
export default function Policies() {
  const [name, setName] = useParam("name");
  const paging = usePaging();
  const may = useMay();
  const { data, error, isPlaceholderData, refetch } = useLive(PolicyService.method.listPolicies, { name, pageSize: 50, pageToken: paging.token });
  return (
    <Page title="Policies" actions={may(PolicyService.method.publishPolicy) && <Button component={Link} to="/policies/new" leftSection={<IconPlus size={16} />}>New bundle or version</Button>}>
      {name && <Text size="sm">Versions of {name}. <Anchor component="button" type="button" onClick={() => setName("")}>Show all bundles</Anchor></Text>}
      <Problem error={error} retry={() => void refetch()} />
      {!data && !error && <ListSkeleton rows={3} />}
      {data && (data.policies.length ? (
        <>
          <List caption="Policy bundles" columns={columns} rows={data.policies} rowKey={(p) => `${p.name}@${p.version}`} stale={isPlaceholderData} />
          <Pager paging={paging} next={data.nextPageToken} shown={data.policies.length} total={data.totalSize} noun="bundle" />
        </>
      ) : <EmptyState kind="no-match" title="There is no bundle of this name" />)}
    </Page>
  );
}
