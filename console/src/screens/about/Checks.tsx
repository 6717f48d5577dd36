import { Text } from "@mantine/core";
import { IconAlertTriangle, IconCircleCheck, IconCircleX } from "@tabler/icons-react";

import type { ReadinessCheck } from "../../gen/countersign/registry/v1/installation_service_pb";
import { Chip } from "../../parts/Chip";

/** Whether what a process needs is there. */
export function Checks({ checks, ready }: { checks: ReadinessCheck[]; ready: boolean }) {
  return (
    <>
      <Text size="sm" mb="xs">{ready ? "Requests are served." : "Not ready: requests may fail."}</Text>
      <dl className="facts">
        {checks.map((c) => [
          <dt key={c.name}>{c.name}</dt>,
          <dd key={`${c.name} is`}>
            {c.ok ? <Chip tone="good" icon={IconCircleCheck}>there</Chip>
              : <Chip tone={c.optional ? "warn" : "bad"} icon={c.optional ? IconAlertTriangle : IconCircleX}>{c.optional ? "away; reads and resolve work without it" : "away"}{c.reason && ` (${c.reason})`}</Chip>}
          </dd>,
        ])}
      </dl>
    </>
  );
}
