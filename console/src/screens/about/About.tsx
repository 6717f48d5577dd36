import { Button, Card, Group, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { IconStethoscope } from "@tabler/icons-react";
import { useQuery } from "@connectrpc/connect-query";
import { type ReactNode, useState } from "react";

import { useLive } from "../../api/live";
import { useConfig } from "../../auth/context";
import { useMay, useMe } from "../../auth/me";
import { home } from "../../config";
import { InstallationService } from "../../gen/countersign/registry/v1/installation_service_pb";
import { CopyCommand, CopyId } from "../../parts/Copy";
import { ListSkeleton } from "../../parts/List";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";
import { Doctor } from "./Doctor";
import { Checks } from "./Checks";

/** What runs here, where it is, how to reach it otherwise, and what is wrong with it. */
export default function About() {
  const { data, error, refetch } = useLive(InstallationService.method.getInstallation, {});
  const config = useConfig();
  const may = useMay();
  const api = new URL(config.api || "/", location.origin).href.replace(/\/$/, "");
  return (
    <Page title="About">
      <Problem error={error} retry={() => void refetch()} />
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        <Part title="What runs">
          {data ? (
            <dl className="facts">
              <dt>Version</dt><dd>{data.version}</dd>
              <dt>Revision</dt><dd>{data.revision ? <CopyId id={data.revision} shown={data.revision.slice(0, 12)} label="Copy the revision" /> : "not recorded by this build"}{data.modified && ", with changes"}</dd>
              <dt>Built with</dt><dd>{data.goVersion}, {data.platform}</dd>
              <dt>Running since</dt><dd><Time at={data.startTime} /></dd>
            </dl>
          ) : !error && <ListSkeleton rows={4} />}
        </Part>
        <Part title="Where it is">
          <dl className="facts">
            <dt>Console</dt><dd><CopyId id={home.href} label="Copy the address of the console" /></dd>
            <dt>API</dt><dd><CopyId id={api} label="Copy the address of the API" /></dd>
            <dt>OpenAPI</dt><dd><a href={`${api}/openapi.json`} target="_blank" rel="noopener noreferrer">{api}/openapi.json</a></dd>
            <dt>Events</dt><dd><a href={`${api}/asyncapi.json`} target="_blank" rel="noopener noreferrer">{api}/asyncapi.json</a></dd>
            <dt>Issuer</dt><dd>{config.issuer || "none: tokens are of the installation's own file"}</dd>
            <dt>Temporal UI</dt><dd>{/^https?:\/\//.test(config.temporalUi) ? <a href={config.temporalUi} target="_blank" rel="noopener noreferrer">{config.temporalUi}</a> : "none is configured"}</dd>
            <dt>Temporal namespace</dt><dd>{config.temporalNamespace}</dd>
          </dl>
        </Part>
        <Part title="What it needs">
          {data ? <Checks checks={data.checks} ready={data.ready} /> : !error && <ListSkeleton rows={4} />}
        </Part>
        <Part title="Who you are"><Me /></Part>
      </SimpleGrid>
      <Part title="The same on the command line">
        <Stack gap="xs">
          <CopyCommand command={`countersign login --server ${api}`} />
          <CopyCommand command="countersign server list" />
          <CopyCommand command="countersign approvals list --mine" />
          <CopyCommand command={`curl -H "Authorization: Bearer $COUNTERSIGN_TOKEN" ${api}/factory/mcp-servers`} />
        </Stack>
      </Part>
      {may(InstallationService.method.examineInstallation) && <Part title="Doctor"><Examination /></Part>}
    </Page>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Card withBorder component="section">
      <Title order={2} size="h4" mb="sm">{title}</Title>
      {children}
    </Card>
  );
}

function Me() {
  const { data: me } = useMe();
  if (!me) return <ListSkeleton rows={3} />;
  return (
    <dl className="facts">
      <dt>Subject</dt><dd>{me.subject}</dd>
      <dt>Tenant</dt><dd>{me.tenant}</dd>
      <dt>Roles</dt><dd>{me.roles.join(", ") || "none"}</dd>
      <dt>Scopes</dt><dd>{me.scopes.join(", ") || "none"}</dd>
      <dt>Token ends</dt><dd><Time at={me.expireTime} otherwise="it does not" /></dd>
    </dl>
  );
}

function Examination() {
  const [asked, setAsked] = useState(false);
  const { data, error, isFetching, refetch } = useQuery(InstallationService.method.examineInstallation, {}, { enabled: asked, staleTime: Infinity, retry: false });
  return (
    <Stack>
      <Group>
        <Text size="sm" style={{ flex: 1, minWidth: 220 }}>Checks the database, its schema and roles, Temporal, its schedule and workers, issuers, keys and clocks, as this process sees them. It changes nothing and takes some seconds.</Text>
        <Button leftSection={<IconStethoscope size={16} />} loading={isFetching} onClick={() => (asked ? void refetch() : setAsked(true))}>
          {data ? "Examine again" : "Examine the installation"}
        </Button>
      </Group>
      <Problem error={error} />
      {data && <Doctor findings={data.findings} />}
    </Stack>
  );
}
