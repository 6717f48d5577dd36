import { Group, Kbd, Modal, NavLink, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useNavigate } from "react-router";

import { quote } from "../api/filter";
import { skipToken, useLive } from "../api/live";
import { McpServerService } from "../gen/countersign/registry/v1/mcp_server_service_pb";
import { ToolCatalogService } from "../gen/countersign/registry/v1/tool_catalog_service_pb";
import { screens } from "./screens";

const few = 6;

/** Goes to a screen, a server or a tool by a part of its name. */
export default function Palette({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const q = typed.trim();
  const servers = useLive(McpServerService.method.listMcpServers, q ? { filter: `name : ${quote(q)}`, pageSize: few } : skipToken);
  const tools = useLive(ToolCatalogService.method.listTools, q ? { search: q, pageSize: few } : skipToken);
  const found = [
    ...screens.flatMap(({ path, nav }) => (nav && nav.label.toLowerCase().includes(q.toLowerCase()) ? [{ kind: "Screen", name: nav.label, to: `/${path}` }] : [])),
    ...(q ? servers.data?.servers ?? [] : []).map((s) => ({ kind: "Server", name: s.name, to: `/servers/${encodeURIComponent(s.name)}` })),
    ...(q ? tools.data?.tools ?? [] : []).map((t) => ({ kind: "Tool", name: t.toolId, to: `/tools/${encodeURIComponent(t.toolId)}` })),
  ];
  const chosen = Math.min(at, found.length - 1);
  const go = (to: string) => { onClose(); void navigate(to); };
  return (
    <Modal opened onClose={onClose} title="Go to" closeButtonProps={{ "aria-label": "Close" }}>
      <TextInput
        data-autofocus aria-label="A screen, server or tool" placeholder="A screen, server or tool" value={typed} role="combobox" aria-expanded aria-controls="palette" aria-activedescendant={found[chosen] && `palette ${chosen}`}
        onChange={(e) => { setTyped(e.currentTarget.value); setAt(0); }}
        onKeyDown={(e) => {
          const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
          if (step) { e.preventDefault(); setAt(Math.min(Math.max(chosen + step, 0), found.length - 1)); }
          const target = found[chosen];
          if (e.key === "Enter" && target) { e.preventDefault(); go(target.to); }
        }}
      />
      <div id="palette" role="listbox" aria-label="Where to" style={{ marginTop: 8 }}>
        {found.map((f, i) => (
          <NavLink key={f.to} id={`palette ${i}`} component="div" role="option" tabIndex={-1} aria-selected={i === chosen} active={i === chosen} label={f.name} description={f.kind} py={4} onClick={() => go(f.to)} styles={{ label: { overflowWrap: "anywhere" }, description: { color: "var(--mantine-color-dimmed)" } }} />
        ))}
      </div>
      {found.length === 0 && <Text size="sm" p="xs" role="status">{servers.isFetching || tools.isFetching ? "Searching" : "Nothing has this name"}</Text>}
    </Modal>
  );
}

const keys: [string[], string][] = [
  [["Ctrl K", "⌘ K"], "go to a screen, server or tool"], [["?"], "these keys"], [["/"], "to the search"], [["j", "k"], "down and up a list"], [["Enter"], "opens what is chosen"],
  [["1", "2", "3", "4"], "in a review: read, sandbox, shared write, publication"], [["0"], "in a review: takes the class back"], [["v"], "in a review: viewed, or not"], [["a"], "in a review: to the decision"],
];

/** What each key does. */
export function Keys({ onClose }: { onClose: () => void }) {
  return (
    <Modal opened onClose={onClose} title="Keys" closeButtonProps={{ "aria-label": "Close" }}>
      <Stack gap="xs">
        {keys.map(([of, what]) => <Group key={what} wrap="nowrap" justify="space-between"><Text size="sm">{what}</Text><Group gap={4} wrap="nowrap">{of.map((k) => <Kbd key={k}>{k}</Kbd>)}</Group></Group>)}
      </Stack>
    </Modal>
  );
}
