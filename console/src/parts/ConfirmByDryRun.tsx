import { Alert, Button, Group, Loader, Modal, Stack, Textarea } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";

import { problemOf } from "../api/problem";
import { Problem } from "./Problem";

/**
 * Asks before a step that takes something away: says what it touches, as the API's dry run tells it, and lets nobody
 * confirm before that is known.
 */
export function ConfirmByDryRun({ opened, onClose, title, verb, touches, loading, dryRunError, comment = "none", onConfirm, pending, error, danger = true }: {
  opened: boolean;
  onClose: () => void;
  title: string;
  verb: string; // of the button
  touches: ReactNode; // what the dry run says
  loading: boolean; // it has not answered yet
  dryRunError?: unknown;
  comment?: "none" | "optional" | "required";
  onConfirm: (comment: string) => void;
  pending: boolean;
  error?: unknown;
  danger?: boolean;
}) {
  const [text, setText] = useState("");
  const refused = dryRunError ? problemOf(dryRunError).reason !== "" : false; // what the API refuses says why by itself
  const missing = comment === "required" && text.trim() === "";
  return (
    <Modal opened={opened} onClose={onClose} title={title} size="lg" closeButtonProps={{ "aria-label": "Close" }}>
      <form onSubmit={(e) => { e.preventDefault(); onConfirm(text.trim()); }}>
        <Stack>
          {loading ? <Group><Loader size="sm" aria-hidden /><span role="status">Asking what it would touch</span></Group> : !dryRunError && (
            <Alert variant="outline" color={danger ? "red" : "blue"} icon={<IconAlertTriangle />} title="What it touches" className="wrap">{touches}</Alert>
          )}
          <Problem error={dryRunError} title={refused ? undefined : "What it touches cannot be told"} />
          {comment !== "none" && (
            <Textarea label="Comment" description="It stays in the audit trail." required={comment === "required"} withAsterisk={comment === "required"} autosize minRows={2} maxLength={2000} value={text} onChange={(e) => setText(e.currentTarget.value)} data-autofocus />
          )}
          <Problem error={error} />
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>Cancel</Button>
            <Button type="submit" color={danger ? "red.9" : undefined} loading={pending} disabled={loading || Boolean(dryRunError) || missing}>{verb}</Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
