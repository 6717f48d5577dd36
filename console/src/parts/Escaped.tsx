import { Fragment, type ReactNode } from "react";

// Controls (but for tab and line feed), marks of direction, what has no width, variation selectors, tags, and spaces
// that look like the usual one.
const unseen = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u00A0\u034F\u115F\u1160\u17B4\u17B5\u2000-\u200A\u202F\u205F\u3000\u2800\u3164\uFE00-\uFE0F\uFFA0\u{E0100}-\u{E01EF}]/u;

/**
 * A text of others, in which every character that nobody would see is shown by its number, so that what is read is
 * what a program reads.
 */
export function Escaped({ text, max }: { text: string; max?: number }) {
  const shown = max !== undefined && text.length > max ? text.slice(0, max) : text;
  if (!unseen.test(shown.replaceAll(/[\t\n]/g, ""))) {
    return <>{shown}{shown !== text && "…"}</>;
  }
  const parts: ReactNode[] = [];
  let plain = "";
  for (const c of shown) {
    if (c === "\n" || c === "\t" || !unseen.test(c)) {
      plain += c;
      continue;
    }
    parts.push(plain, <span className="unseen" title="a character that is not seen">⟨{codeOf(c)}⟩</span>);
    plain = "";
  }
  parts.push(plain, shown !== text && "…");
  return <bdi>{parts.map((part, i) => <Fragment key={i}>{part}</Fragment>)}</bdi>;
}

function codeOf(c: string): string {
  return `U+${c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Whether a text has characters that nobody would see. */
export function hasUnseen(text: string): boolean {
  return unseen.test(text.replaceAll(/[\t\n]/g, ""));
}
