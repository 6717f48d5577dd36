// What enumerations of the API are called on screens.

import { DriftSeverity, ItemKind, DiffStatus, ReviewKind } from "../gen/countersign/registry/v1/review_pb";
import { DiscoveryStatus, HealthLevel, LaunchStatus, McpAuthentication, McpServerState, McpTransport, Probing, ReviewStatus, SideEffectClass } from "../gen/countersign/registry/v1/types_pb";

export const stateWord: Record<McpServerState, string> = {
  [McpServerState.UNSPECIFIED]: "Unknown",
  [McpServerState.REGISTERED]: "Registered",
  [McpServerState.VERIFIED]: "Verified",
  [McpServerState.ACTIVE]: "Active",
  [McpServerState.DEGRADED]: "Degraded",
  [McpServerState.RETIRED]: "Retired",
};

export const levelWord: Record<HealthLevel, string> = {
  [HealthLevel.UNSPECIFIED]: "Unknown",
  [HealthLevel.HEALTHY]: "Healthy",
  [HealthLevel.DEGRADED]: "Impaired",
  [HealthLevel.UNHEALTHY]: "Unhealthy",
  [HealthLevel.UNKNOWN]: "Unknown",
};

export const probingWord: Record<Probing, string> = {
  [Probing.UNSPECIFIED]: "",
  [Probing.PROBED]: "",
  [Probing.NEVER_PROBED]: "Never probed",
  [Probing.NOT_PROBED]: "Not probed in this state",
  [Probing.UNKNOWN]: "Unknown: the last probe could not be made",
  [Probing.WITHHELD]: "Withheld: the last probe does not count yet",
  [Probing.EMPTY]: "Answers, and offers no tools",
};

export const reviewWord: Record<ReviewStatus, string> = {
  [ReviewStatus.UNSPECIFIED]: "",
  [ReviewStatus.NONE]: "Nothing to review",
  [ReviewStatus.PENDING]: "Needs review",
  [ReviewStatus.APPROVED]: "Approved",
  [ReviewStatus.REJECTED]: "Rejected",
  [ReviewStatus.EXPIRED]: "Review expired",
};

export const discoveryWord: Record<DiscoveryStatus, string> = {
  [DiscoveryStatus.UNSPECIFIED]: "",
  [DiscoveryStatus.NEVER]: "Never",
  [DiscoveryStatus.RUNNING]: "Under way",
  [DiscoveryStatus.SUCCEEDED]: "Succeeded",
  [DiscoveryStatus.FAILED]: "Failed",
};

export const transportWord: Record<McpTransport, string> = {
  [McpTransport.UNSPECIFIED]: "",
  [McpTransport.STREAMABLE_HTTP]: "HTTP",
  [McpTransport.STDIO]: "Command",
};

export const authenticationWord: Record<McpAuthentication, string> = {
  [McpAuthentication.UNSPECIFIED]: "",
  [McpAuthentication.OAUTH2_PROTECTED_RESOURCE]: "OAuth 2.1",
  [McpAuthentication.WORKLOAD_IDENTITY]: "Workload identity",
  [McpAuthentication.NONE_EXCEPTION]: "None, by an exception",
};

export const classWord: Record<SideEffectClass, string> = {
  [SideEffectClass.UNSPECIFIED]: "No class",
  [SideEffectClass.READ]: "read",
  [SideEffectClass.SANDBOX]: "sandbox",
  [SideEffectClass.SHARED_WRITE]: "shared write",
  [SideEffectClass.PUBLICATION]: "publication",
};

export const launchWord: Record<LaunchStatus, string> = {
  [LaunchStatus.UNSPECIFIED]: "Nothing to start",
  [LaunchStatus.PENDING]: "Launch not approved",
  [LaunchStatus.APPROVED]: "Launch approved",
};

export const severityWord: Record<DriftSeverity, string> = {
  [DriftSeverity.UNSPECIFIED]: "no change",
  [DriftSeverity.COSMETIC]: "cosmetic",
  [DriftSeverity.TEXT]: "text",
  [DriftSeverity.WIDENING]: "widening",
  [DriftSeverity.NARROWING]: "narrowing",
  [DriftSeverity.BREAKING]: "breaking",
  [DriftSeverity.ESCALATING]: "escalating",
};

export const itemWord: Record<ItemKind, string> = {
  [ItemKind.UNSPECIFIED]: "item",
  [ItemKind.TOOL]: "tool",
  [ItemKind.RESOURCE]: "resource",
  [ItemKind.TEMPLATE]: "resource template",
  [ItemKind.PROMPT]: "prompt",
};

export const diffWord: Record<DiffStatus, string> = {
  [DiffStatus.UNSPECIFIED]: "",
  [DiffStatus.ADDED]: "added",
  [DiffStatus.REMOVED]: "removed",
  [DiffStatus.CHANGED]: "changed",
  [DiffStatus.UNCHANGED]: "unchanged",
};

export const reviewKindWord: Record<ReviewKind, string> = {
  [ReviewKind.UNSPECIFIED]: "Nothing to sign",
  [ReviewKind.FIRST]: "First review",
  [ReviewKind.DRIFT]: "Drift",
  [ReviewKind.AGAIN]: "Again, unchanged",
};

/** A count with its noun, such as "1 tool" and "2 tools". */
export function count(n: number | bigint, one: string, many = `${one}s`): string {
  return `${n.toLocaleString()} ${Number(n) === 1 ? one : many}`;
}

/** The beginning of a digest, for people to tell two apart. */
export function short(digest: string): string {
  const [algorithm, hex] = digest.includes(":") ? digest.split(":", 2) : ["", digest];
  return hex ? hex.slice(0, 12) : (algorithm ?? "");
}
