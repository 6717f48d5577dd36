import { Center, Stack, Text } from "@mantine/core";
import { IconClockQuestion, IconFilterOff, IconHelpCircle, IconInbox, IconLock, IconMapQuestion } from "@tabler/icons-react";
import type { ReactNode } from "react";

/** Why there is nothing to see; each is another thing to know, and is said otherwise. */
export type Emptiness =
  | "empty" // there is nothing
  | "no-match" // there is something, and the filter leaves nothing of it
  | "never" // nobody has looked yet
  | "withheld" // it is there, and is not shown or does not count yet
  | "unknown" // nobody can say
  | "missing"; // the address leads nowhere

const signs = { "empty": IconInbox, "no-match": IconFilterOff, "never": IconClockQuestion, "withheld": IconLock, "unknown": IconHelpCircle, "missing": IconMapQuestion };

export function EmptyState({ kind, title, children }: { kind: Emptiness; title: string; children?: ReactNode }) {
  const Sign = signs[kind];
  return (
    <Center p="xl" data-empty={kind}>
      <Stack align="center" gap="xs" maw={640}>
        <Sign size={36} stroke={1.4} aria-hidden />
        <Text fw={600} ta="center">{title}</Text>
        {children}
      </Stack>
    </Center>
  );
}
