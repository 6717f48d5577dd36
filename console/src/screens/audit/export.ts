import type { MessageInitShape } from "@bufbuild/protobuf";
import { callUnaryMethod, useTransport } from "@connectrpc/connect-query";
import { useState } from "react";

import { AuditFormat, AuditService, type ExportAuditEventsRequestSchema } from "../../gen/countersign/registry/v1/audit_service_pb";

type State = { kind: "idle" } | { kind: "running" | "done"; events: number } | { kind: "failed"; error: unknown };

/** Reads all that is chosen, page by page, into a file that the browser keeps. */
export function useExport() {
  const transport = useTransport();
  const [state, setState] = useState<State>({ kind: "idle" });
  const start = async (chosen: MessageInitShape<typeof ExportAuditEventsRequestSchema>, format: AuditFormat) => {
    const parts: string[] = [];
    let events = 0;
    setState({ kind: "running", events });
    try {
      for (let pageToken = ""; ;) {
        const page = await callUnaryMethod(transport, AuditService.method.exportAuditEvents, { ...chosen, format, pageSize: 1000, pageToken });
        parts.push(page.data);
        events += page.events;
        pageToken = page.nextPageToken;
        if (!pageToken) break;
        setState({ kind: "running", events });
      }
      const csv = format === AuditFormat.CSV;
      save(new Blob(parts, { type: csv ? "text/csv" : "application/x-ndjson" }), csv ? "audit.csv" : "audit.jsonl");
      setState({ kind: "done", events });
    } catch (error) {
      setState({ kind: "failed", error });
    }
  };
  return { start, state };
}

function save(content: Blob, name: string) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
