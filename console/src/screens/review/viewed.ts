import { useCallback, useState } from "react";

/**
 * Which items of a review somebody has looked at, as long as the tab is open. They are kept for what was looked at:
 * another digest begins with none.
 */
export function useViewed(digest: string): [ReadonlySet<string>, (key: string, viewed: boolean) => void] {
  const name = `viewed ${digest}`;
  const [viewed, setViewed] = useState<ReadonlySet<string>>(() => read(name));
  const mark = useCallback((key: string, is: boolean) => setViewed((before) => {
    const next = new Set(before);
    if (is) next.add(key);
    else next.delete(key);
    write(name, next);
    return next;
  }), [name]);
  return [viewed, mark];
}

function read(name: string): Set<string> {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(name) ?? "[]");
    return new Set(Array.isArray(kept) ? kept.filter((k) => typeof k === "string") : []);
  } catch {
    return new Set(); // the browser keeps nothing, or something that is not ours
  }
}

function write(name: string, viewed: ReadonlySet<string>) {
  try {
    sessionStorage.setItem(name, JSON.stringify([...viewed]));
  } catch {
    // The browser keeps nothing, or no more; the marks last as long as the page.
  }
}
