import { Alert, Button, Group, Modal, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";

import { problemOf } from "../api/problem";
import { Problem } from "./Problem";

/**
 * A form that changes an object as it was when the form was opened. When somebody else changed it since, that is said in place, and what
 * one typed stays: one can take theirs, or put one's own on top of theirs.
 */
export function Edit({ title, onClose, changed, then, pending, error, onSave, onTheirs, onMine, children }: {
  title: string;
  onClose: () => void;
  changed: string[]; // the fields that differ from what was loaded, as people call them
  then: ReactNode; // what will happen then
  pending: boolean;
  error: unknown;
  onSave: () => void;
  onTheirs: () => void; // begins anew with what is there now
  onMine: () => void; // keeps what was typed, on top of what is there now
  children: ReactNode;
}) {
  const conflict = error && problemOf(error).reason === "stale_etag";
  return (
    <Modal opened onClose={onClose} title={title} size="lg" closeButtonProps={{ "aria-label": "Close" }}>
      <form onSubmit={(e) => { e.preventDefault(); onSave(); }}>
        <Stack>
          {children}
          <Alert color="blue" variant="outline" title="What will happen then" role="status">{changed.length ? <><Text size="sm">It changes: {changed.join(", ")}.</Text>{then}</> : "Nothing: nothing is changed yet."}</Alert>
          {conflict ? (
            <Alert color="yellow" variant="outline" role="alert" title="Somebody changed it while you did">
              <Text size="sm">Nothing of yours is saved, and nothing of theirs is lost.</Text>
              <Group gap="xs" mt="xs">
                <Button size="compact-md" variant="default" onClick={onTheirs}>Begin anew with theirs</Button>
                <Button size="compact-md" variant="default" onClick={onMine}>Keep my changes, on top of theirs</Button>
              </Group>
            </Alert>
          ) : <Problem error={error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>Cancel</Button>
            <Button type="submit" loading={pending} disabled={changed.length === 0 || Boolean(conflict)}>Save</Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

/** The lines of a text, as labels: key=value. */
export function labelsOf(text: string): Record<string, string> {
  return Object.fromEntries(text.split("\n").map((l) => l.trim()).filter(Boolean).map((l) => {
    const at = l.indexOf("=");
    return at < 0 ? [l, ""] : [l.slice(0, at).trim(), l.slice(at + 1).trim()];
  }));
}
