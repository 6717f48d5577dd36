import { Text } from "@mantine/core";
import { IconExternalLink } from "@tabler/icons-react";

import { everyRun, useLive } from "../../api/live";
import { usePaging } from "../../app/url";
import { McpServerService } from "../../gen/countersign/registry/v1/mcp_server_service_pb";
import type { McpServer } from "../../gen/countersign/registry/v1/types_pb";
import { CopyId } from "../../parts/Copy";
import { EmptyState } from "../../parts/EmptyState";
import { ListSkeleton, Pager } from "../../parts/List";
import { Problem } from "../../parts/Problem";
import { type Step, Steps } from "../../parts/Steps";
import { Time } from "../../parts/Time";

const stateOf = (status: string): Step["state"] => {
  switch (status.toLowerCase()) {
    case "completed": case "continued_as_new": case "continuedasnew": return "done";
    case "running": return "running";
    default: return "failed";
  }
};

/** The workflow runs of a server as a timeline, each with its way into the Temporal UI. */
export function Runs({ of: s }: { of: McpServer }) {
  const paging = usePaging();
  const { data, error, refetch } = useLive(McpServerService.method.listMcpServerRuns, { serverId: s.serverId, pageSize: 20, pageToken: paging.token }, { every: everyRun });
  if (error) return <Problem error={error} title="The runs cannot be read: Temporal may be away" retry={() => void refetch()} />;
  if (!data) return <ListSkeleton />;
  if (data.runs.length === 0) return <EmptyState kind="unknown" title="Temporal knows no run of it any more" />;
  return (
    <>
      <Steps steps={data.runs.map((r) => ({
        name: `${r.type} · ${r.status}`, state: stateOf(r.status), children: (
          <Text size="sm" component="div">
            began <Time at={r.startTime} />{r.closeTime && <>, ended <Time at={r.closeTime} /></>}{" "}
            {/^https?:\/\//.test(r.temporalUrl) && <a href={r.temporalUrl} target="_blank" rel="noopener noreferrer">Open in Temporal <IconExternalLink size={12} aria-hidden /></a>}
            <div><CopyId id={r.workflowId} label="Copy the workflow's id" /></div>
          </Text>
        ),
      }))} />
      <Pager paging={paging} next={data.nextPageToken} shown={data.runs.length} noun="run" />
    </>
  );
}
