import { ItemKind, type GetReviewResponse, type ReviewItem } from "../../gen/countersign/registry/v1/review_pb";
import type { SideEffectClass } from "../../gen/countersign/registry/v1/types_pb";

/** As what an item is to be approved; nothing of it leaves it as it is. */
export interface Line {
  class: SideEffectClass | 0; // of a tool
  target: string; // of a resource the source, of a prompt the skill
}

export const nothing: Line = { class: 0, target: "" };

export type Lines = Record<string, Line>;

/** Tells items of a review apart. */
export const keyOf = (i: ReviewItem) => `${i.diff?.kind ?? 0} ${i.diff?.name ?? ""}`;

/** All items of a review in the order of the API: the worst first. */
export function itemsOf(r: GetReviewResponse): ReviewItem[] {
  return [...r.tools, ...r.resources, ...r.templates, ...r.prompts];
}

/** What an approval of these lines names. */
export function approvalOf(r: GetReviewResponse, lines: Lines) {
  const chosen = itemsOf(r).map((item) => ({ item, name: item.diff?.name ?? "", kind: item.diff?.kind ?? 0, line: lines[keyOf(item)] ?? nothing }));
  return {
    tools: chosen.filter((c) => c.kind === ItemKind.TOOL && c.line.class).map((c) => ({ tool: c.name, class: c.line.class as SideEffectClass, enable: true })),
    resources: chosen.filter((c) => (c.kind === ItemKind.RESOURCE || c.kind === ItemKind.TEMPLATE) && c.line.target.trim()).map((c) => ({ uri: c.name, sourceId: c.line.target.trim() })),
    prompts: chosen.filter((c) => c.kind === ItemKind.PROMPT && c.line.target.trim()).map((c) => ({ prompt: c.name, skillId: c.line.target.trim() })),
  };
}
