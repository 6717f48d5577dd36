import { Alert, Checkbox, Code, Group, Stack, Text, TextInput, Title } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";

import { DiffStatus, ItemKind, type ReviewItem } from "../../gen/countersign/registry/v1/review_pb";
import { SideEffectClass } from "../../gen/countersign/registry/v1/types_pb";
import { Severity } from "../../parts/Chip";
import { Escaped, hasUnseen } from "../../parts/Escaped";
import { Time } from "../../parts/Time";
import { classWord, diffWord, itemWord } from "../../parts/words";
import { Changes } from "../diff/Changes";
import type { Line } from "./lines";

const classes = [SideEffectClass.READ, SideEffectClass.SANDBOX, SideEffectClass.SHARED_WRITE, SideEffectClass.PUBLICATION];

/** One item of a review: what changed, what it says, what its server hints, and as what it is approved. */
export function Item({ of: i, split, viewed, onViewed, line, onChange }: { of: ReviewItem; split: boolean; viewed: boolean; onViewed: (viewed: boolean) => void; line: Line; onChange: (line: Line) => void }) {
  const d = i.diff;
  const name = d?.name ?? "";
  const gone = d?.status === DiffStatus.REMOVED;
  const hidden = hasUnseen(name + i.title + i.description);
  return (
    <Stack gap="sm">
      <Group gap="sm">
        <Title order={2} size="h4" className="wrap"><Escaped text={name} /></Title>
        <Text size="sm" c="dimmed">{itemWord[d?.kind ?? 0]}, {diffWord[d?.status ?? 0]}</Text>
        {d && d.severity > 0 && <Severity severity={d.severity} />}
        <Checkbox label="Viewed" checked={viewed} onChange={(e) => onViewed(e.currentTarget.checked)} />
      </Group>
      {i.quarantineReason && <Alert color="red" variant="outline" title="In quarantine: it cannot be bound"><Code>{i.quarantineReason}</Code> <Escaped text={i.quarantineDetail} /></Alert>}
      {hidden && <Alert color="red" variant="outline" icon={<IconAlertTriangle />} title="It has characters that nobody sees">They are shown by their numbers.</Alert>}
      {i.hints.length > 0 && (
        <Alert color="yellow" variant="outline" icon={<IconAlertTriangle />} title="Look at this twice">
          {i.hints.map((h) => <div key={h.code + h.path + h.detail}><Code>{h.code}</Code> {h.path && <Code>{h.path}</Code>} <Escaped text={h.detail} /></div>)}
        </Alert>
      )}
      {i.title && i.title !== name && <Text size="sm"><Escaped text={i.title} /></Text>}
      {i.description && <Text size="sm" className="wrap" style={{ whiteSpace: "pre-wrap" }}><Escaped text={i.description} /></Text>}
      {d && d.status === DiffStatus.CHANGED && <Changes of={d.changes} split={split} />}
      {i.terms && (
        <Text size="sm">
          Approved before{i.terms.declaredClass ? <> as <b>{classWord[i.terms.declaredClass]}</b></> : ""} by <Escaped text={i.terms.approvedBy} /> <Time at={i.terms.approveTime} />
          {!i.terms.bound && i.terms.unboundReason && <>; no longer bound: <Code>{i.terms.unboundReason}</Code></>}
        </Text>
      )}
      {!gone && !i.quarantineReason && d?.kind === ItemKind.TOOL && (
        <fieldset className="classes">
          <legend>Approve {name} as</legend>
          <label><input type="radio" name={`class of ${name}`} checked={!line.class} onChange={() => onChange({ ...line, class: 0 })} /> leave it as it is</label>
          {classes.map((c) => (
            <label key={c}><input type="radio" name={`class of ${name}`} checked={line.class === c} onChange={() => onChange({ ...line, class: c })} /> {classWord[c]}</label>
          ))}
          {i.suggestion && i.suggestion.class > 0 && <Text size="xs" c="dimmed">Suggested: {classWord[i.suggestion.class]}, since {i.suggestion.reason}. Nobody checked that; what counts is what you declare.</Text>}
        </fieldset>
      )}
      {!gone && !i.quarantineReason && (d?.kind === ItemKind.RESOURCE || d?.kind === ItemKind.TEMPLATE) && (
        <TextInput label="Approve it as the knowledge source" description="Empty leaves it as it is" value={line.target} onChange={(e) => onChange({ ...line, target: e.currentTarget.value })} maw={360} />
      )}
      {!gone && !i.quarantineReason && d?.kind === ItemKind.PROMPT && (
        <TextInput label="Approve it for the skill" description="Empty leaves it as it is" value={line.target} onChange={(e) => onChange({ ...line, target: e.currentTarget.value })} maw={360} />
      )}
      {i.definitionJson && (
        <details>
          <summary>The whole definition</summary>
          <pre className="code" tabIndex={0}><Escaped text={pretty(i.definitionJson)} /></pre>
        </details>
      )}
    </Stack>
  );
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}
