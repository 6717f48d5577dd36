// Reading that repeats itself: every list half-minute, what is under way every few seconds, nothing while the page is
// hidden or paused.

import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { skipToken, useQuery, useTransport } from "@connectrpc/connect-query";
import { keepPreviousData, MutationCache, QueryClient, useQueryClient } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";

import { problemOf } from "./problem";

export const everyList = 30_000;
export const everyRun = 3_000;

/** Begins the keys of what is read again only when a person asks for it. */
export const heldKey = "held";

export function newQueryClient(): QueryClient {
  const client: QueryClient = new QueryClient({
    // Two numbers that mean the same stay the same: after any change everything on the screen is read again. But for what
    // somebody is about to sign: that stays as it was looked at until they ask for what is there now.
    mutationCache: new MutationCache({ onSettled: () => void client.invalidateQueries({ predicate: (q) => q.queryKey[0] !== heldKey }) }),
    defaultOptions: {
      queries: {
        staleTime: 2_000,
        refetchOnWindowFocus: true,
        retry: (count, error) => count < 2 && problemOf(error).retryable,
      },
    },
  });
  return client;
}

let paused = false;
const listeners = new Set<() => void>();

export function setPaused(value: boolean): void {
  paused = value;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function usePaused(): boolean {
  return useSyncExternalStore(subscribe, () => paused);
}

type Options<O extends DescMessage> = {
  /** How often it is read, in milliseconds; or told by the last answer. A list's pace when absent. */
  every?: number | ((data: MessageShape<O> | undefined) => number);
  enabled?: boolean;
};

/** Reads by a method, again and again. What was there stays on the screen while another page or filter is read. */
export function useLive<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>, input: MessageInitShape<I> | typeof skipToken, options: Options<O> = {},
) {
  const stopped = usePaused();
  const every = options.every ?? everyList;
  return useQuery(method, input, {
    enabled: options.enabled ?? true,
    placeholderData: keepPreviousData,
    refetchInterval: (query) =>
      stopped ? false : typeof every === "number" ? every : every(query.state.data as MessageShape<O> | undefined),
    refetchIntervalInBackground: false,
  });
}

/** When the oldest of what is on the screen was read, in milliseconds since 1970; 0 before. */
export function useOldest(): number {
  const cache = useQueryClient().getQueryCache();
  return useSyncExternalStore(
    (listener) => cache.subscribe(listener),
    () => {
      let oldest = 0;
      for (const query of cache.findAll({ type: "active" })) {
        const at = query.state.dataUpdatedAt;
        const repeated = query.observers.some((o) => o.options.refetchInterval);
        if (repeated && at && (!oldest || at < oldest)) oldest = at;
      }
      return oldest;
    },
  );
}

export { skipToken, useTransport };
