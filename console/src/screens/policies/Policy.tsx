import { Anchor, Button, Card, Group, SimpleGrid, Stack, Text, TextInput, Title } from "@mantine/core";
import { useQuery } from "@connectrpc/connect-query";
import { Link, useParams } from "react-router";
import { useState } from "react";

import { useAction } from "../../api/action";
import { useLive } from "../../api/live";
import { problemOf } from "../../api/problem";
import { useParam } from "../../app/url";
import { useMay } from "../../auth/me";
import { PolicyService } from "../../gen/countersign/registry/v1/policy_service_pb";
import { CopyId, CopyMenu } from "../../parts/Copy";
import { EmptyState } from "../../parts/EmptyState";
import { Escaped } from "../../parts/Escaped";
import { ListSkeleton } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";
import { count, short } from "../../parts/words";
import { Results } from "./Results";
import { Unfits } from "./Unfits";

const up = [{ label: "Policies", to: "/policies" }];

/** One version of a bundle: its rules as they are published, its own tests, and what it would mean for a server. */
export default function Policy() {
  const { name = "" } = useParams();
  const { data, error, refetch } = useLive(PolicyService.method.getPolicy, { name });
  const may = useMay();
  const test = useAction(PolicyService.method.testPolicy);
  if (error && problemOf(error).notFound) {
    return <Page title={name} up={up}><EmptyState kind="missing" title="There is no such bundle" /></Page>;
  }
  const p = data?.policy;
  const ref = p && (p.builtIn ? p.name : `${p.name}@${p.version}`);
  return (
    <Page title={name} up={up} actions={p && (
      <>
        <CopyMenu id={p.digest || p.name} command={`countersign policy show ${ref}`} />
        {may(PolicyService.method.publishPolicy) && <Button component={Link} variant="default" to={`/policies/new?of=${encodeURIComponent(ref ?? "")}`}>Make another of it</Button>}
        <Button loading={test.isPending} onClick={() => test.mutate({ policy: ref })}>Run its tests</Button>
      </>
    )}>
      <Problem error={error} retry={() => void refetch()} />
      {!p && !error && <ListSkeleton rows={4} />}
      {p && (
        <SimpleGrid cols={{ base: 1, lg: 2 }}>
          <Stack>
            <Card withBorder>
              <dl className="facts">
                <dt>Version</dt><dd>{p.builtIn ? "built in" : p.version}{!p.newest && ", superseded"}</dd>
                {p.description && <><dt>What it asks for</dt><dd><Escaped text={p.description} /></dd></>}
                <dt>Governs</dt><dd>{count(p.servers, "server")}</dd>
                <dt>Rules</dt><dd>{count(p.rules, "rule")}, {count(p.tests, "test")}</dd>
                <dt>Digest</dt><dd>{p.digest ? <CopyId id={p.digest} shown={short(p.digest)} label="Copy the digest" /> : "none"}</dd>
                <dt>Published</dt><dd>{p.publishTime ? <><Time at={p.publishTime} /> by <Escaped text={p.publishedBy} /></> : "with the program"}</dd>
                {!p.builtIn && <><dt>Others</dt><dd><Anchor component={Link} size="sm" to={`/policies?name=${encodeURIComponent(p.name)}`}>all versions of {p.name}</Anchor></dd></>}
              </dl>
            </Card>
            <Problem error={test.error} />
            {test.data && <Results of={test.data} />}
            {may(PolicyService.method.previewPolicy) && <OnServer policy={ref ?? ""} />}
          </Stack>
          <section aria-label="The bundle as published">
            <pre className="code" tabIndex={0}><Escaped text={p.document} /></pre>
          </section>
        </SimpleGrid>
      )}
    </Page>
  );
}

/** What putting a server under this policy would unbind; nothing is changed. */
function OnServer({ policy }: { policy: string }) {
  const [server, setServer] = useParam("server");
  const [typed, setTyped] = useState(server);
  const { data, error, isFetching } = useQuery(PolicyService.method.previewPolicy, { policy, serverId: server }, { enabled: server !== "", retry: false });
  return (
    <Card withBorder component="section">
      <Title order={2} size="h4" mb="xs">What it would unbind of a server</Title>
      <form onSubmit={(e) => { e.preventDefault(); setServer(typed.trim()); }}>
        <Group align="flex-end" gap="xs">
          <TextInput label="Server (id or name)" value={typed} onChange={(e) => setTyped(e.currentTarget.value)} style={{ flex: 1, minWidth: 160 }} />
          <Button type="submit" variant="default" loading={isFetching}>Preview</Button>
        </Group>
      </form>
      <Stack mt="sm" gap="xs">
        <Problem error={error} />
        {data && <Unfits of={data.unbound} none={`Nothing of ${server} would be unbound.`} />}
        <Text size="xs" c="dimmed">Nothing is changed by looking.</Text>
      </Stack>
    </Card>
  );
}
