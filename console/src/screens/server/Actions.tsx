import { Button, Card, Menu, Modal, Title } from "@mantine/core";
import { IconChevronDown, IconListSearch, IconPencil, IconPlugConnected, IconRefresh } from "@tabler/icons-react";
import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { Link } from "react-router";

import { useAction } from "../../api/action";
import { quote } from "../../api/filter";
import { useMay } from "../../auth/me";
import { AuditService } from "../../gen/countersign/registry/v1/audit_service_pb";
import { McpServerService } from "../../gen/countersign/registry/v1/mcp_server_service_pb";
import { ToolCatalogService } from "../../gen/countersign/registry/v1/tool_catalog_service_pb";
import { type McpServer, McpServerState, ReviewStatus } from "../../gen/countersign/registry/v1/types_pb";
import { ConfirmByDryRun } from "../../parts/ConfirmByDryRun";
import { CopyMenu } from "../../parts/Copy";
import { Problem } from "../../parts/Problem";
import { count } from "../../parts/words";
import { TestReport } from "../connections/TestReport";
import { EditServer } from "./EditServer";

/** What one can do with a server, as far as one may. */
export function Actions({ of: s }: { of: McpServer }) {
  const may = useMay();
  const m = McpServerService.method;
  const [asking, setAsking] = useState<"retire" | "quarantine">();
  const [editing, setEditing] = useState(false);
  const test = useAction(m.testMcpServer);
  const discover = useAction(m.discoverMcpCapabilities, { done: (a) => (a.done ? "The discovery has ended" : "The discovery goes on: see the runs") });
  const ask = useAction(m.requestReview, { done: "A review is asked for" });
  const retired = s.state === McpServerState.RETIRED;
  const watched = s.state === McpServerState.ACTIVE || s.state === McpServerState.DEGRADED;
  return (
    <>
      <CopyMenu id={s.serverId} command={`countersign server describe ${s.name}`} />
      {may(AuditService.method.listAuditEvents) && <Button component={Link} variant="default" to={`/audit?object=${encodeURIComponent(s.serverId)}`} leftSection={<IconListSearch size={16} />}>Audit</Button>}
      {!retired && may(m.testMcpServer) && <Button variant="default" loading={test.isPending} leftSection={<IconPlugConnected size={16} />} onClick={() => test.mutate({ serverId: s.serverId })}>Test</Button>}
      {!retired && may(m.discoverMcpCapabilities) && <Button variant="default" loading={discover.isPending} leftSection={<IconRefresh size={16} />} onClick={() => discover.mutate({ serverId: s.serverId })}>Discover</Button>}
      {!retired && may(m.updateMcpServer) && <Button variant="default" leftSection={<IconPencil size={16} />} onClick={() => setEditing(true)}>Edit</Button>}
      {!retired && (may(m.retireMcpServer) || may(m.quarantineMcpServer)) && (
        <Menu position="bottom-end">
          <Menu.Target><Button variant="default" rightSection={<IconChevronDown size={16} />}>More</Button></Menu.Target>
          <Menu.Dropdown>
            <Menu.Item component={Link} to={`/capabilities?server=${encodeURIComponent(s.name)}`}>Capability report</Menu.Item>
            {may(m.requestReview) && s.review?.status !== ReviewStatus.PENDING && s.snapshotDigest && <Menu.Item onClick={() => ask.mutate({ serverId: s.serverId, etag: s.etag })}>Request a review</Menu.Item>}
            {watched && may(m.quarantineMcpServer) && <Menu.Item onClick={() => setAsking("quarantine")}>Quarantine</Menu.Item>}
            {may(m.retireMcpServer) && <Menu.Item onClick={() => setAsking("retire")}>Retire</Menu.Item>}
          </Menu.Dropdown>
        </Menu>
      )}
      <div style={{ width: "100%" }}><Problem error={test.error ?? discover.error ?? ask.error} /></div>
      {test.data && (
        <Modal opened onClose={() => test.reset()} title={`Test of ${s.name}`} size="lg" closeButtonProps={{ "aria-label": "Close" }}>
          <Card p={0}><Title order={2} size="h5" mb="xs">Step by step; nothing was written</Title><TestReport of={test.data} /></Card>
        </Modal>
      )}
      {editing && <EditServer of={s} onClose={() => setEditing(false)} />}
      {asking && <Destructive of={s} what={asking} onClose={() => setAsking(undefined)} />}
    </>
  );
}

/** Retires or quarantines, when it was said what that touches. */
function Destructive({ of: s, what, onClose }: { of: McpServer; what: "retire" | "quarantine"; onClose: () => void }) {
  const retire = useAction(McpServerService.method.retireMcpServer, { done: `${s.name} is retired`, then: onClose });
  const quarantine = useAction(McpServerService.method.quarantineMcpServer, { done: `${s.name} is in quarantine`, then: onClose });
  const impact = useQuery(ToolCatalogService.method.getToolImpact, { filter: `server_id = ${quote(s.serverId)}` }, { retry: false });
  const action = what === "retire" ? retire : quarantine;
  const callable = s.counts?.callableTools ?? 0;
  const agents = impact.data?.agents.length ?? 0;
  return (
    <ConfirmByDryRun
      opened onClose={onClose} title={what === "retire" ? `Retire ${s.name}` : `Quarantine ${s.name}`} verb={what === "retire" ? "Retire it for ever" : "Quarantine it"}
      loading={impact.isPending} dryRunError={impact.error} comment={what === "retire" ? "optional" : "required"} pending={action.isPending} error={action.error}
      touches={<>
        {count(callable, "tool")} of {s.counts?.tools ?? 0} can be called now and no longer then{agents > 0 && `; ${count(agents, "agent has", "agents have")} some of them assigned`}.{" "}
        {what === "retire" ? "Retired servers do not come back; the name is free at once." : "It stays so until somebody approves what it is then."}
      </>}
      onConfirm={(comment) => action.mutate({ serverId: s.serverId, comment, etag: s.etag })}
    />
  );
}
