import { Code, Text } from "@mantine/core";
import { IconAlertTriangle, IconCircleCheck, IconCircleX, IconHelpCircle } from "@tabler/icons-react";

import { FindingStatus, type InstallationFinding } from "../../gen/countersign/registry/v1/installation_service_pb";
import { Chip } from "../../parts/Chip";
import { Escaped } from "../../parts/Escaped";
import { type Column, List } from "../../parts/List";

function Status({ status }: { status: FindingStatus }) {
  switch (status) {
    case FindingStatus.OK: return <Chip tone="good" icon={IconCircleCheck}>well</Chip>;
    case FindingStatus.WARN: return <Chip tone="warn" icon={IconAlertTriangle}>works, should not stay so</Chip>;
    case FindingStatus.FAIL: return <Chip tone="bad" icon={IconCircleX}>does not work</Chip>;
    default: return <Chip tone="mute" icon={IconHelpCircle}>unknown</Chip>;
  }
}

const columns: Column<InstallationFinding>[] = [
  { key: "check", header: "Check", cell: (f) => f.check },
  { key: "status", header: "Status", cell: (f) => <Status status={f.status} /> },
  {
    key: "found", header: "Found", cell: (f) => (
      <>
        <Escaped text={f.found} />
        {f.reason && <> <Code>{f.reason}</Code></>}
        {f.fix && <Text size="sm">Fix: {f.fix}</Text>}
      </>
    ),
  },
];

/** What the examination of the installation found: the worst first. */
export function Doctor({ findings }: { findings: InstallationFinding[] }) {
  const rows = [...findings].sort((a, b) => b.status - a.status);
  return <List caption="Findings of the examination" columns={columns} rows={rows} rowKey={(f) => f.check} />;
}
