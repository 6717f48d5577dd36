import { ActionIcon, Button, Code, Group, Menu, Tooltip } from "@mantine/core";
import { useClipboard } from "@mantine/hooks";
import { IconCheck, IconCopy, IconHash, IconLink, IconTerminal2 } from "@tabler/icons-react";

import { notify } from "./Notices";

/** Copies a text. */
export function CopyButton({ text, label }: { text: string; label: string }) {
  const clipboard = useClipboard();
  return (
    <Tooltip label={clipboard.copied ? "Copied" : label}>
      <ActionIcon variant="subtle" color="gray" size="sm" aria-label={label} onClick={() => clipboard.copy(text)}>
        {clipboard.copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
      </ActionIcon>
    </Tooltip>
  );
}

/** An id or a digest, as much of it as people need, and a way to copy all. */
export function CopyId({ id, shown, label = "Copy the id" }: { id: string; shown?: string; label?: string }) {
  if (!id) return null;
  return (
    <Group component="span" gap={4} wrap="nowrap" display="inline-flex" align="center">
      <span className="mono wrap" title={id}>{shown ?? id}</span>
      <CopyButton text={id} label={label} />
    </Group>
  );
}

/** A command as one types it, and a way to copy it. */
export function CopyCommand({ command }: { command: string }) {
  return (
    <Group gap={4} wrap="nowrap" align="flex-start">
      <Code block style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere", flex: 1 }}>{command}</Code>
      <CopyButton text={command} label="Copy the command" />
    </Group>
  );
}

/** Everything of an object that one can take along. */
export function CopyMenu({ id, command, link = location.href }: { id: string; command: string; link?: string }) {
  const clipboard = useClipboard();
  const copy = (text: string, what: string) => {
    clipboard.copy(text);
    notify(`Copied the ${what}`);
  };
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button variant="default" leftSection={<IconCopy size={16} />}>Copy</Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item leftSection={<IconHash size={16} />} onClick={() => copy(id, "id")}>Copy id</Menu.Item>
        <Menu.Item leftSection={<IconTerminal2 size={16} />} onClick={() => copy(command, "command")}>Copy command</Menu.Item>
        <Menu.Item leftSection={<IconLink size={16} />} onClick={() => copy(link, "link")}>Copy link</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
