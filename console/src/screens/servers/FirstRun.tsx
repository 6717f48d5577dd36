import { Button, Stack, Text } from "@mantine/core";
import { useQuery } from "@connectrpc/connect-query";
import { useNavigate } from "react-router";

import { useAction } from "../../api/action";
import { useMay } from "../../auth/me";
import { ConnectionAuthKind, ConnectionService } from "../../gen/countersign/registry/v1/connection_service_pb";
import { McpServerService } from "../../gen/countersign/registry/v1/mcp_server_service_pb";
import { McpAuthentication, McpDirection, McpTransport } from "../../gen/countersign/registry/v1/types_pb";
import { CopyCommand } from "../../parts/Copy";
import { EmptyState } from "../../parts/EmptyState";
import { Problem } from "../../parts/Problem";

/** What to do where there is no server yet. */
export function FirstRun() {
  const may = useMay();
  const navigate = useNavigate();
  const demo = useQuery(ConnectionService.method.listConnections, { pageSize: 200 });
  const register = useAction(McpServerService.method.registerMcpServer, { done: "The demo server is registered", then: () => void navigate("/servers/demo") });
  if (!may(McpServerService.method.registerMcpServer)) {
    return <EmptyState kind="empty" title="No server is registered yet"><Text size="sm">An AssetMaintainer or a PlatformAdmin registers servers.</Text></EmptyState>;
  }
  return (
    <EmptyState kind="empty" title="No server is registered yet">
      <Stack gap="xs" w="100%">
        <Text size="sm">Register one, approve exactly the tools that you want, and ask before each call:</Text>
        <CopyCommand command="countersign server register demo --connection demo --auth oauth2 --wait verified" />
        <CopyCommand command="countersign server approve demo --all --class read" />
        <CopyCommand command="countersign tools resolve demo.hash_compute -o json" />
        {demo.data?.connections.some((c) => c.name === "demo" && c.spec?.authKind === ConnectionAuthKind.CLIENT_CREDENTIALS) && (
          <>
            <Text size="sm">The same here: this process has a demo server.</Text>
            <Button
              loading={register.isPending} onClick={() => register.mutate({
                name: "demo", direction: McpDirection.CONSUMED, transport: McpTransport.STREAMABLE_HTTP, endpointRef: "demo",
                authentication: McpAuthentication.OAUTH2_PROTECTED_RESOURCE, governancePolicyRef: "default", protocolVersion: "2026-07-28",
              })}
            >Register the demo server</Button>
          </>
        )}
        <Problem error={register.error} />
      </Stack>
    </EmptyState>
  );
}
