import { Code } from "@mantine/core";
import { useMutation } from "@connectrpc/connect-query";
import { useEffect } from "react";

import { useAction } from "../../api/action";
import { ToolCatalogService } from "../../gen/countersign/registry/v1/tool_catalog_service_pb";
import { ConfirmByDryRun } from "../../parts/ConfirmByDryRun";
import { count } from "../../parts/words";

/** Enables or disables what a filter chooses, after the dry run said what that is. */
export function SetEnabled({ chosen, enabled, onClose }: { chosen: { filter: string; search: string }; enabled: boolean; onClose: () => void }) {
  const dry = useMutation(ToolCatalogService.method.setToolsEnabled);
  const { mutate } = dry;
  useEffect(() => mutate({ ...chosen, enabled, dryRun: true }), [mutate, chosen.filter, chosen.search, enabled]);
  const real = useAction(ToolCatalogService.method.setToolsEnabled, {
    done: (a) => `${count(a.changedTools, "tool")} ${enabled ? "enabled" : "disabled"}${a.failedTools ? `, ${a.failedTools} failed` : ""}`, then: onClose,
  });
  const d = dry.data;
  const word = enabled ? "enabled" : "disabled";
  return (
    <ConfirmByDryRun
      opened onClose={onClose} title={enabled ? "Enable what is shown" : "Disable what is shown"} verb={enabled ? "Enable" : "Disable"} danger={!enabled}
      loading={!d && !dry.error} dryRunError={dry.error} pending={real.isPending} error={real.error}
      touches={d && <>
        {count(d.changedTools, "tool")} of {count(d.servers.length, "server")} would be {word}; {d.unchangedTools} are so already{d.failedTools > 0 && `; ${d.failedTools} cannot be`}.
        {d.servers.slice(0, 10).map((s) => <div key={s.serverId}>{s.serverName}: {count(s.toolIds.length, "tool")} {s.reason && <Code>{s.reason}</Code>}</div>)}
        {d.servers.length > 10 && <div>and {d.servers.length - 10} more servers</div>}
      </>}
      onConfirm={() => real.mutate({ ...chosen, enabled })}
    />
  );
}
