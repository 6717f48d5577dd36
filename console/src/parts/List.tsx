import { Button, Group, Skeleton, Text } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { type ReactNode, useRef } from "react";

import type { Paging } from "../app/url";
import { count } from "./words";

export interface Column<T> {
  key: string;
  header: ReactNode; // of the table
  label?: string; // on narrow screens; the header when it is a text, none when ""
  cell: (row: T) => ReactNode;
  className?: string; // number, tight
}

/**
 * A list: a table, on narrow screens cards. j and k go from row to row, Enter opens: so the first link of a row leads
 * to what the row is about.
 */
export function List<T>({ caption, columns, rows, rowKey, stale = false }: {
  caption: string; // for those who do not see it
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string;
  stale?: boolean; // these are the rows of another page or filter, until those asked for are there
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  const step = (by: 1 | -1) => {
    // Of several lists on a screen the keys are of the one that one is in, or else of the first.
    const here = document.activeElement?.closest("table.list") ?? document.querySelector("table.list");
    if (here !== body.current?.parentElement) return;
    const all = [...(body.current?.rows ?? [])].map((row) => row.querySelector<HTMLElement>("a[href], button")).filter((e) => e !== null);
    const at = all.findIndex((e) => e.closest("tr")?.contains(document.activeElement));
    all[Math.min(Math.max(at + by, 0), all.length - 1)]?.focus();
  };
  useHotkeys([["j", () => step(1)], ["k", () => step(-1)]]);
  return (
    <table className={stale ? "list stale" : "list"} aria-busy={stale}>
      <caption className="unseen-text">{caption}</caption>
      <thead>
        <tr>{columns.map((c) => <th key={c.key} scope="col" className={c.className}>{c.header}</th>)}</tr>
      </thead>
      <tbody ref={body}>
        {rows.map((row) => (
          <tr key={rowKey(row)}>
            {columns.map((c) => {
              const label = c.label ?? (typeof c.header === "string" ? c.header : "");
              return <td key={c.key} className={c.className} data-label={label || undefined}><div>{c.cell(row)}</div></td>;
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** What is there until the rows are. */
export function ListSkeleton({ rows = 6 }: { rows?: number }) {
  return (
    <div role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, i) => <Skeleton key={i} height={36} mb={8} />)}
    </div>
  );
}

/** Where one is in a list, and the way on and back. */
export function Pager({ paging, next, shown, total, noun, nouns }: { paging: Paging; next: string; shown: number; total?: number; noun: string; nouns?: string }) {
  return (
    <Group justify="space-between" gap="xs">
      <Text size="sm" c="dimmed" role="status">
        {total === undefined ? count(shown, noun, nouns) : paging.number === 1 && !next ? count(total, noun, nouns) : `${shown.toLocaleString()} of ${count(total, noun, nouns)}, page ${paging.number}`}
      </Text>
      {(paging.number > 1 || next) && (
        <Group gap="xs">
          {paging.first && paging.number > 2 && <Button size="compact-sm" variant="default" onClick={paging.first}>First</Button>}
          <Button size="compact-sm" variant="default" disabled={!paging.back && !paging.first} onClick={paging.back ?? paging.first}>{paging.back || !paging.first ? "Previous" : "First"}</Button>
          <Button size="compact-sm" variant="default" disabled={!next} onClick={() => paging.next(next)}>Next</Button>
        </Group>
      )}
    </Group>
  );
}
