// What a person chose on a screen is in its address, so that a reload, a link and the way back keep it.

import { useCallback, useMemo } from "react";
import { useSearchParams } from "react-router";

/** How many pages back the address remembers; further back there is only the first. */
const remembered = 6;

/**
 * One choice of the screen: its value, and a way to set it. The default is not in the address. Another choice begins
 * at the first page, unless `keepsPage`.
 */
export function useParam(name: string, otherwise = "", keepsPage = false): [string, (value: string) => void] {
  const [params, setParams] = useSearchParams();
  const set = useCallback(
    (value: string) =>
      setParams(
        (now) => {
          const next = new URLSearchParams(now);
          if (value === otherwise) next.delete(name);
          else next.set(name, value);
          if (!keepsPage) dropPages(next);
          return next;
        },
        { replace: true },
      ),
    [setParams, name, otherwise, keepsPage],
  );
  return [params.get(name) ?? otherwise, set];
}

/** Several choices that change together; an empty value takes one out. */
export function useParams(): [URLSearchParams, (change: Record<string, string>) => void] {
  const [params, setParams] = useSearchParams();
  const set = useCallback(
    (change: Record<string, string>) =>
      setParams(
        (now) => {
          const next = new URLSearchParams(now);
          for (const [name, value] of Object.entries(change)) {
            if (value) next.set(name, value);
            else next.delete(name);
          }
          dropPages(next);
          return next;
        },
        { replace: true },
      ),
    [setParams],
  );
  return [params, set];
}

function dropPages(params: URLSearchParams) {
  params.delete("page");
  params.delete("at");
}

export interface Paging {
  token: string; // for the request
  number: number; // from 1
  next: (token: string) => void;
  back: (() => void) | undefined;
  first: (() => void) | undefined;
}

/** The pages of a list: the tokens of the pages before are in the address, so that a reload stays and the way back works. */
export function usePaging(): Paging {
  const [params, setParams] = useSearchParams();
  return useMemo(() => {
    const tokens = params.getAll("at");
    const number = tokens.length ? Math.max(Number(params.get("page")) || 2, 2) : 1;
    const go = (to: string[], page: number) =>
      setParams((now) => {
        const next = new URLSearchParams(now);
        dropPages(next);
        if (to.length) {
          next.set("page", String(page));
          for (const token of to.slice(-remembered)) next.append("at", token);
        }
        return next;
      });
    const canGoBack = tokens.length > 1 || number === 2;
    return {
      token: tokens.at(-1) ?? "",
      number,
      next: (token) => go([...tokens, token], number + 1),
      back: number > 1 && canGoBack ? () => go(tokens.slice(0, -1), number - 1) : undefined,
      first: number > 1 ? () => go([], 1) : undefined,
    };
  }, [params, setParams]);
}
