import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { Tooltip } from "@mantine/core";
import { useSyncExternalStore } from "react";

const tickers = new Map<number, { now: number; listeners: Set<() => void> }>();

/** The time in milliseconds since 1970, which moves on every `every` milliseconds. */
export function useNow(every = 10_000): number {
  let ticker = tickers.get(every);
  if (!ticker) {
    const made = { now: Date.now(), listeners: new Set<() => void>() };
    setInterval(() => {
      made.now = Date.now();
      for (const listener of made.listeners) listener();
    }, every);
    tickers.set(every, made);
    ticker = made;
  }
  const { listeners } = ticker;
  const kept = ticker;
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => kept.now,
  );
}

const steps: [number, string][] = [[60, "s"], [60, "min"], [24, "h"], [30, "d"], [12, "mo"], [Infinity, "y"]];

/** How long ago, or in how long, such as "3 min ago". */
export function ago(at: number, now: number): string {
  const seconds = (now - at) / 1000;
  const text = span(Math.abs(seconds));
  if (text === "0 s") return "now";
  return seconds >= 0 ? `${text} ago` : `in ${text}`;
}

/** A length of time in one unit, such as "3 min". */
export function span(seconds: number): string {
  let rest = Math.round(seconds);
  for (const [size, unit] of steps) {
    if (rest < size) return `${rest} ${unit}`;
    rest = Math.round(rest / size);
  }
  return "";
}

/** The time as people here write it, with the zone. */
export function absolute(ms: number): string {
  return new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
}

/** A time: how long ago, and when exactly on hover or focus. */
export function Time({ at, otherwise = "never" }: { at: Timestamp | undefined; otherwise?: string }) {
  const now = useNow();
  if (!at) return <>{otherwise}</>;
  const ms = timestampMs(at);
  return (
    <Tooltip label={absolute(ms)}>
      <time dateTime={new Date(ms).toISOString()}>{ago(ms, now)}</time>
    </Tooltip>
  );
}
