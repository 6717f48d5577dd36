/** A text as filters quote it. */
export function quote(text: string): string {
  return `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

/** Joins the comparisons that there are. */
export function all(...comparisons: (string | false | undefined)[]): string {
  return comparisons.filter(Boolean).join(" AND ");
}
