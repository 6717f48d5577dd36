import { type Duration, durationMs } from "@bufbuild/protobuf/wkt";
import { Group, Loader, Text } from "@mantine/core";
import { IconCircleCheck, IconCircleDashed, IconCircleX } from "@tabler/icons-react";
import type { ReactNode } from "react";

import { Escaped } from "./Escaped";

export interface Step {
  name: string;
  state: "done" | "failed" | "running" | "waiting";
  detail?: string; // may be a text of others
  duration?: Duration;
  children?: ReactNode;
}

const words = { done: "done", failed: "failed", running: "under way", waiting: "not yet" };

/** What is done one after the other, each with what came of it. */
export function Steps({ steps }: { steps: Step[] }) {
  return (
    <ol className="steps">
      {steps.map((step, i) => (
        <li key={i} aria-current={step.state === "running" ? "step" : undefined}>
          <span aria-hidden className={`sign ${step.state}`}>
            {step.state === "done" && <IconCircleCheck size={20} />}
            {step.state === "failed" && <IconCircleX size={20} />}
            {step.state === "running" && <Loader size={18} />}
            {step.state === "waiting" && <IconCircleDashed size={20} />}
          </span>
          <div style={{ minWidth: 0 }}>
            <Group gap="xs">
              <Text size="sm" fw={600}>{step.name}</Text>
              <Text size="xs" c="dimmed">{words[step.state]}{step.duration && ` · ${took(step.duration)}`}</Text>
            </Group>
            {step.detail && <Text size="sm" className="wrap"><Escaped text={step.detail} /></Text>}
            {step.children}
          </div>
        </li>
      ))}
    </ol>
  );
}

/** How long something took. */
export function took(duration: Duration): string {
  const ms = durationMs(duration);
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
}
