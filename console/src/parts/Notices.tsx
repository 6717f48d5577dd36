import { Notification, Stack } from "@mantine/core";
import { useSyncExternalStore } from "react";

interface Notice {
  id: number;
  message: string;
}

const shown = 4_000; // milliseconds
let notices: readonly Notice[] = [];
let next = 0;
const listeners = new Set<() => void>();

function set(to: readonly Notice[]) {
  notices = to;
  for (const listener of listeners) listener();
}

const drop = (id: number) => set(notices.filter((n) => n.id !== id));

/** Says that something is done; what failed stays where it was asked for, and is not said here. */
export function notify(message: string): void {
  const id = next++;
  set([...notices, { id, message }]);
  setTimeout(() => drop(id), shown);
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** What was said just now. */
export function Notices() {
  const all = useSyncExternalStore(subscribe, () => notices);
  return (
    <Stack className="notices" role="status" gap="xs">
      {all.map((n) => <Notification key={n.id} color="green" withBorder closeButtonProps={{ "aria-label": "Close" }} onClose={() => drop(n.id)}>{n.message}</Notification>)}
    </Stack>
  );
}
