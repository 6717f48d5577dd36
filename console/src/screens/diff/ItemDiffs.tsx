import { Group, Text } from "@mantine/core";

import { DiffStatus, type ItemDiff } from "../../gen/countersign/registry/v1/review_pb";
import { Severity } from "../../parts/Chip";
import { Escaped } from "../../parts/Escaped";
import { diffWord, itemWord } from "../../parts/words";
import { Changes } from "./Changes";

/** How items differ, the worst first; what is unchanged is only counted. */
export function ItemDiffs({ of, split }: { of: ItemDiff[]; split: boolean }) {
  const shown = of.filter((d) => d.status !== DiffStatus.UNCHANGED).sort((a, b) => b.severity - a.severity);
  return (
    <>
      {shown.map((d) => (
        <section key={`${d.kind} ${d.name} ${d.status}`} className="item">
          <Group gap="sm">
            <Text fw={600} size="sm"><Escaped text={d.name} /></Text>
            <Text size="sm" c="dimmed">{itemWord[d.kind]}, {diffWord[d.status]}{d.renamedTo && <> as <Escaped text={d.renamedTo} /></>}{d.renamedFrom && <>, formerly <Escaped text={d.renamedFrom} /> ({Math.round(d.likeness * 100)} % alike)</>}</Text>
            <Severity severity={d.severity} />
          </Group>
          <Changes of={d.changes} split={split} />
        </section>
      ))}
    </>
  );
}
