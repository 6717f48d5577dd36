import { Alert, Code, Stack, Text } from "@mantine/core";
import { IconCircleCheck, IconCircleX } from "@tabler/icons-react";

import type { TestMcpServerResponse } from "../../gen/countersign/registry/v1/mcp_server_service_pb";
import { Escaped } from "../../parts/Escaped";
import { Steps } from "../../parts/Steps";
import { count } from "../../parts/words";

/** What a connection test did, step by step, and what it came to. It wrote nothing. */
export function TestReport({ of: r }: { of: TestMcpServerResponse }) {
  return (
    <Stack gap="sm">
      {r.ok ? (
        <Alert color="green" variant="outline" role="status" icon={<IconCircleCheck />} title="It works">
          It speaks {r.protocolVersion} and offers {count(r.tools, "tool")}, {count(r.resources, "resource")}, {count(r.prompts, "prompt")}. {r.reported?.name && <>It calls itself <Escaped text={`${r.reported.name} ${r.reported.version}`} />.</>}
        </Alert>
      ) : (
        <Alert color="red" variant="outline" role="alert" icon={<IconCircleX />} title={<Escaped text={r.message} />} className="wrap">
          {r.nextStep && <Text size="sm">Next: <Escaped text={r.nextStep} /></Text>}
          {r.reason && <Text size="xs" c="dimmed">Reason <Code>{r.reason}</Code></Text>}
        </Alert>
      )}
      <Steps steps={r.steps.map((s) => ({ name: s.name, state: s.ok ? "done" as const : "failed" as const, detail: s.detail, duration: s.duration }))} />
      {r.quirks.length > 0 && <Text size="sm">Tolerated: {r.quirks.map((q) => <Code key={q} mr={4}>{q}</Code>)}</Text>}
    </Stack>
  );
}
