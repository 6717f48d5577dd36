import { Alert, Code, Stack, Text, Title } from "@mantine/core";
import { IconCircleCheck, IconCircleX } from "@tabler/icons-react";

import type { TestToolProviderResponse } from "../../gen/countersign/registry/v1/tool_provider_service_pb";
import { Escaped } from "../../parts/Escaped";
import { List } from "../../parts/List";
import { count } from "../../parts/words";
import { TestReport } from "../connections/TestReport";
import { contributions } from "./Brings";
import { Faults } from "./Provider";

/** What a test of a provider found: its descriptor, then each server. It wrote nothing. */
export function ProviderTest({ of: t }: { of: TestToolProviderResponse }) {
  return (
    <Stack gap="sm">
      <Alert color={t.ok ? "green" : "red"} variant="outline" role="status" icon={t.ok ? <IconCircleCheck /> : <IconCircleX />} title={t.ok ? "It works" : <Escaped text={t.message || "It does not work"} />} className="wrap">
        {t.descriptorUrl && <div>The descriptor is at <Escaped text={t.descriptorUrl} /></div>}
        {t.ok && `${count(t.servers.length, "server")} and ${count(t.contributionCount, "tool")}.`}
        {t.nextStep && <Text size="sm">Next: <Escaped text={t.nextStep} /></Text>}
        {t.reason && <Text size="xs" c="dimmed">Reason <Code>{t.reason}</Code></Text>}
      </Alert>
      <Faults faults={t.faults} warnings={t.warnings} />
      {t.servers.map((s) => (
        <section key={s.externalId + s.endpointUrl}>
          <Title order={3} size="h5"><Escaped text={s.externalId || s.endpointUrl} /></Title>
          {s.report && <TestReport of={s.report} />}
        </section>
      ))}
      {t.issues.length > 0 && <List caption="Tools with an issue" columns={contributions} rows={t.issues} rowKey={(c) => c.contributionId} />}
    </Stack>
  );
}
