import { Code, Table } from "@mantine/core";

import type { Change } from "../../gen/countersign/registry/v1/review_pb";
import { Severity } from "../../parts/Chip";
import { Escaped } from "../../parts/Escaped";
import { TextDiff } from "./TextDiff";

const value = (json: string) => {
  try {
    const v: unknown = JSON.parse(json);
    return typeof v === "string" ? v : JSON.stringify(v, null, 2);
  } catch {
    return json;
  }
};

/** What changed of one item, path by path: the worst first. Texts are compared word by word. */
export function Changes({ of, split }: { of: Change[]; split: boolean }) {
  if (of.length === 0) return null;
  const rows = [...of].sort((a, b) => b.severity - a.severity);
  return (
    <Table withRowBorders verticalSpacing={4} layout="fixed" aria-label="Changes">
      <Table.Tbody>
        {rows.map((c) => (
          <Table.Tr key={c.path + c.kind}>
            <Table.Td className="wrap" w="32%" style={{ verticalAlign: "top" }}>
              <Code>{c.path || "/"}</Code>
              <div>{c.kind.replaceAll("_", " ")}</div>
              <Severity severity={c.severity} />
            </Table.Td>
            <Table.Td className="wrap" style={{ verticalAlign: "top" }}>
              {c.beforeJson && c.afterJson ? <TextDiff before={value(c.beforeJson)} after={value(c.afterJson)} split={split} />
                : c.afterJson ? <ins className="added"><Escaped text={value(c.afterJson)} /></ins>
                  : <del className="removed"><Escaped text={value(c.beforeJson)} /></del>}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
