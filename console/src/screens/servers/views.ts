// The saved views of servers: filters that the API counts by the same names.

import { all, quote } from "../../api/filter";
import type { GetFleetHealthResponse } from "../../gen/countersign/registry/v1/health_pb";
import { HealthLevel } from "../../gen/countersign/registry/v1/types_pb";

export interface View {
  key: string; // in the address
  label: string;
  filter: string;
  count: (fleet: GetFleetHealthResponse) => number;
}

export const views: View[] = [
  { key: "", label: "All", filter: "", count: (f) => f.servers },
  { key: "review", label: "Needs review", filter: "review = pending", count: (f) => f.needsReview },
  { key: "drifted", label: "Drifted", filter: "drifted = true", count: (f) => f.drifted },
  { key: "unhealthy", label: "Unhealthy", filter: "health = unhealthy", count: (f) => f.health.filter((h) => h.level === HealthLevel.UNHEALTHY).reduce((n, h) => n + h.servers, 0) },
  { key: "expiring", label: "Expiring", filter: "expiring = true", count: (f) => f.expiring },
];

/** The filter that an address says, in the API's words. */
export function filterOf(params: URLSearchParams): string {
  const get = (name: string) => params.get(name) ?? "";
  return all(
    views.find((v) => v.key === get("view"))?.filter,
    get("q") && `name : ${quote(get("q"))}`,
    ...["state", "health", "transport", "authentication"].map((name) => get(name) && `${name} = ${get(name)}`),
    get("owner") && `owner : ${quote(get("owner"))}`,
    get("connection") && `connection = ${quote(get("connection"))}`,
  );
}
