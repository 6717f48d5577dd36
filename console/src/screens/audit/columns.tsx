import { Anchor, Code, Text } from "@mantine/core";
import { IconCircleCheck, IconCircleX } from "@tabler/icons-react";
import { Link } from "react-router";

import type { AuditEvent } from "../../gen/countersign/registry/v1/audit_service_pb";
import { Chip } from "../../parts/Chip";
import { CopyId } from "../../parts/Copy";
import { Escaped } from "../../parts/Escaped";
import type { Column } from "../../parts/List";
import { Time } from "../../parts/Time";
import { short } from "../../parts/words";

export const columns: Column<AuditEvent>[] = [
  { key: "time", header: "When", cell: (e) => <Time at={e.time} /> },
  {
    key: "what", header: "What", cell: (e) => (
      <>
        <div>{e.action}</div>
        <Text size="xs" c="dimmed">by way of {e.origin}</Text>
      </>
    ),
  },
  {
    key: "object", header: "Object", cell: (e) => (
      <>
        {e.objectId ? <Anchor component={Link} size="sm" to={`/audit?object=${encodeURIComponent(e.objectId)}`}><Escaped text={e.objectName || e.objectId} /></Anchor> : <Escaped text={e.objectName} />}
        <Text size="xs" c="dimmed">{e.objectKind}</Text>
      </>
    ),
  },
  {
    key: "who", header: "Who", cell: (e) => (
      <>
        <div><Escaped text={e.actor} /></div>
        {e.roles.length > 0 && <Text size="xs" c="dimmed">{e.roles.join(", ")}</Text>}
      </>
    ),
  },
  {
    key: "outcome", header: "Outcome", cell: (e) => (
      <>
        {e.outcome === "refused" ? <Chip tone="bad" icon={IconCircleX}>refused</Chip> : <Chip tone="good" icon={IconCircleCheck}>{e.outcome}</Chip>}
        {e.reason && <div><Code>{e.reason}</Code></div>}
        {e.note && <Text size="sm"><Escaped text={e.note} max={400} /></Text>}
      </>
    ),
  },
  {
    key: "more", header: "Record", cell: (e) => (
      <>
        <div>{e.position ? `No. ${e.position.toLocaleString()} of the chain` : "not sealed yet"}</div>
        {e.digestAfter && e.digestAfter !== e.digestBefore && <CopyId id={e.digestAfter} shown={short(e.digestAfter)} label="Copy the digest after it" />}
        {e.hash && <Text size="xs" c="dimmed" component="div">hash <CopyId id={e.hash} shown={short(e.hash)} label="Copy the hash" /></Text>}
      </>
    ),
  },
];
