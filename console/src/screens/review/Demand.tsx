import { Text } from "@mantine/core";
import { IconCircleCheck, IconCircleX, IconClock } from "@tabler/icons-react";

import type { Approval, ApprovalCounts } from "../../gen/countersign/registry/v1/approval_service_pb";
import { Chip } from "../../parts/Chip";
import { Escaped } from "../../parts/Escaped";
import { count } from "../../parts/words";

/** Counts in words, the worst first: "1 breaking · 2 text · 3 added". */
export function countsOf(c: ApprovalCounts | undefined): string {
  if (!c) return "";
  const parts: [number, string][] = [
    [c.escalating, "escalating"], [c.breaking, "breaking"], [c.narrowing, "narrowing"], [c.widening, "widening"], [c.text, "text"], [c.cosmetic, "cosmetic"],
    [c.added, "added"], [c.removed, "removed"], [c.quarantined, "in quarantine"], [c.hinted, "with hints"], [c.unbound, "unbound"],
  ];
  const said = parts.filter(([n]) => n > 0).map(([n, word]) => `${n} ${word}`);
  if (c.targetChanged) said.unshift("reached elsewhere");
  if (c.instructionsChanged) said.push("instructions changed");
  return said.join(" · ");
}

/** How many people an approval takes, who has decided, and whether one can oneself. */
export function Demand({ of: a }: { of: Approval }) {
  const d = a.demand;
  const roles = Object.entries(d?.rolesMissing ?? {}).map(([role, n]) => `${n} ${role}`).join(", ");
  return (
    <>
      <Text size="sm">{d ? `${count(d.people, "person", "people")}${d.peopleMissing !== d.people ? `, ${d.peopleMissing} still missing` : ""}${roles ? `, of them ${roles}` : ""}` : "unknown"}</Text>
      {d && d.decidedBy.length > 0 && <Text size="xs">approved by {d.decidedBy.map((who) => <Escaped key={who} text={`${who} `} />)}</Text>}
      {d?.commentRequired && <Text size="xs">everybody says why</Text>}
      <Text size="sm" component="div">{a.canDecide ? <Chip tone="calm" icon={IconClock}>you can approve it</Chip> : a.decided ? <Chip tone="good" icon={IconCircleCheck}>you approved it</Chip> : <Chip tone="mute" icon={IconCircleX}>not by you</Chip>}</Text>
      {!a.canDecide && !a.decided && a.blockedDetail && <Text size="xs" c="dimmed"><Escaped text={a.blockedDetail} /></Text>}
    </>
  );
}
