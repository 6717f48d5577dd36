import { Group, Text, Tooltip } from "@mantine/core";
import { IconAlertTriangle, IconArchive, IconCircleCheck, IconCircleDashed, IconCircleX, IconClockQuestion, IconEyeCheck, IconHelpCircle, IconHourglass, IconProgressCheck } from "@tabler/icons-react";
import type { ComponentType, ReactNode } from "react";

import { DriftSeverity } from "../gen/countersign/registry/v1/review_pb";
import { type Health as HealthOf, HealthLevel, McpServerState, Probing, ReviewStatus, type SideEffectClass } from "../gen/countersign/registry/v1/types_pb";
import { Escaped } from "./Escaped";
import { classWord, levelWord, probingWord, reviewWord, severityWord, stateWord } from "./words";

type Tone = "good" | "warn" | "bad" | "calm" | "mute";

/** A word with a sign, whose colour only repeats what the two say. */
export function Chip({ tone, icon: Icon, children, detail }: { tone: Tone; icon: ComponentType<{ size?: number }>; children: ReactNode; detail?: ReactNode }) {
  const chip = (
    <Group component="span" gap={5} wrap="nowrap" display="inline-flex" align="center" tabIndex={detail ? 0 : undefined}>
      <span aria-hidden style={{ color: `var(--${tone})`, display: "inline-flex" }}><Icon size={16} /></span>
      <span>{children}</span>
    </Group>
  );
  return detail ? <Tooltip label={detail}>{chip}</Tooltip> : chip;
}

const states: Record<McpServerState, [Tone, ComponentType<{ size?: number }>]> = {
  [McpServerState.UNSPECIFIED]: ["mute", IconHelpCircle],
  [McpServerState.REGISTERED]: ["mute", IconCircleDashed],
  [McpServerState.VERIFIED]: ["calm", IconProgressCheck],
  [McpServerState.ACTIVE]: ["good", IconCircleCheck],
  [McpServerState.DEGRADED]: ["bad", IconAlertTriangle],
  [McpServerState.RETIRED]: ["mute", IconArchive],
};

/** Where a server stands in its life. */
export function StateChip({ state }: { state: McpServerState }) {
  const [tone, icon] = states[state];
  return <Chip tone={tone} icon={icon}>{stateWord[state]}</Chip>;
}

const levels: Record<HealthLevel, [Tone, ComponentType<{ size?: number }>]> = {
  [HealthLevel.UNSPECIFIED]: ["mute", IconHelpCircle],
  [HealthLevel.HEALTHY]: ["good", IconCircleCheck],
  [HealthLevel.DEGRADED]: ["warn", IconAlertTriangle],
  [HealthLevel.UNHEALTHY]: ["bad", IconCircleX],
  [HealthLevel.UNKNOWN]: ["mute", IconHelpCircle],
};

/** How well a server is, apart from where it stands; never more than what is known. */
export function Health({ health, summary = true }: { health: HealthOf | undefined; summary?: boolean }) {
  if (!health) return <Chip tone="mute" icon={IconHelpCircle}>Unknown</Chip>;
  const [tone, icon] = levels[health.level];
  const told = health.level === HealthLevel.HEALTHY || health.level === HealthLevel.DEGRADED || health.level === HealthLevel.UNHEALTHY;
  const word = told ? levelWord[health.level] : probingWord[health.probing] || levelWord[health.level];
  return (
    <div>
      <Chip tone={tone} icon={!told && health.probing === Probing.NEVER_PROBED ? IconClockQuestion : icon}>{word}</Chip>
      {summary && health.summary && health.level !== HealthLevel.HEALTHY && (
        <Text size="xs" c="dimmed" className="wrap"><Escaped text={health.summary} /></Text>
      )}
    </div>
  );
}

const reviews: Record<ReviewStatus, [Tone, ComponentType<{ size?: number }>]> = {
  [ReviewStatus.UNSPECIFIED]: ["mute", IconCircleDashed],
  [ReviewStatus.NONE]: ["mute", IconCircleDashed],
  [ReviewStatus.PENDING]: ["warn", IconEyeCheck],
  [ReviewStatus.APPROVED]: ["good", IconCircleCheck],
  [ReviewStatus.REJECTED]: ["bad", IconCircleX],
  [ReviewStatus.EXPIRED]: ["bad", IconHourglass],
};

/** Where the request for approval of a server stands. */
export function ReviewChip({ status }: { status: ReviewStatus }) {
  const [tone, icon] = reviews[status];
  return <Chip tone={tone} icon={icon}>{reviewWord[status]}</Chip>;
}

/** What a change means to whoever uses the item. */
export function Severity({ severity }: { severity: DriftSeverity }) {
  const tone: Tone = severity >= DriftSeverity.BREAKING ? "bad" : severity >= DriftSeverity.TEXT ? "warn" : "mute";
  return <Chip tone={tone} icon={severity >= DriftSeverity.BREAKING ? IconCircleX : severity >= DriftSeverity.TEXT ? IconAlertTriangle : IconCircleDashed}>{severityWord[severity]}</Chip>;
}

/** The declared class of a tool. */
export function ClassChip({ value }: { value: SideEffectClass }) {
  const tones: Tone[] = ["mute", "good", "calm", "warn", "bad"];
  const icons = [IconCircleDashed, IconEyeCheck, IconProgressCheck, IconAlertTriangle, IconAlertTriangle];
  return <Chip tone={tones[value] ?? "mute"} icon={icons[value] ?? IconCircleDashed}>{classWord[value]}</Chip>;
}

/** Yes or no, by sign and word. */
export function YesNo({ yes, words = ["yes", "no"], bad = false }: { yes: boolean; words?: [string, string]; bad?: boolean }) {
  return yes
    ? <Chip tone="good" icon={IconCircleCheck}>{words[0]}</Chip>
    : <Chip tone={bad ? "bad" : "mute"} icon={bad ? IconCircleX : IconCircleDashed}>{words[1]}</Chip>;
}
