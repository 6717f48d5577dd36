import { ProviderRefreshStatus, ToolProviderFamily } from "../../gen/countersign/registry/v1/tool_provider_service_pb";

export const familyWord: Record<ToolProviderFamily, string> = {
  [ToolProviderFamily.UNSPECIFIED]: "Unknown",
  [ToolProviderFamily.MCP]: "MCP server",
  [ToolProviderFamily.AEP]: "Agent extension",
};

export const refreshWord: Record<ProviderRefreshStatus, string> = {
  [ProviderRefreshStatus.UNSPECIFIED]: "Unknown",
  [ProviderRefreshStatus.NEVER]: "Never refreshed",
  [ProviderRefreshStatus.RUNNING]: "Under way",
  [ProviderRefreshStatus.SUCCEEDED]: "Succeeded",
  [ProviderRefreshStatus.FAILED]: "Failed",
};
