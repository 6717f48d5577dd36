import { Anchor, Card, Code, SimpleGrid } from "@mantine/core";
import { Link } from "react-router";

import { McpAuthentication, type McpServer, McpTransport } from "../../gen/countersign/registry/v1/types_pb";
import { CopyId } from "../../parts/Copy";
import { Escaped } from "../../parts/Escaped";
import { Time } from "../../parts/Time";
import { authenticationWord, count, discoveryWord, short, transportWord } from "../../parts/words";

/** What a server is: how it is reached, who governs it, what the last discovery came to. */
export function Overview({ of: s }: { of: McpServer }) {
  const d = s.discovery;
  const x = s.authenticationException;
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }}>
      <Card withBorder>
        <dl className="facts">
          <dt>Id</dt><dd><CopyId id={s.serverId} /></dd>
          <dt>Reached</dt><dd>{s.transport === McpTransport.STDIO ? <>by the command <Code>{s.commandRef}</Code></> : <Escaped text={s.endpointUrl} />} ({transportWord[s.transport]})</dd>
          {s.endpointRef && <><dt>Connection</dt><dd><Anchor component={Link} size="sm" to={`/connections/${encodeURIComponent(s.endpointRef.split("@")[0] ?? "")}`}>{s.endpointRef}</Anchor></dd></>}
          <dt>As whom</dt><dd>{authenticationWord[s.authentication]}</dd>
          {s.authentication === McpAuthentication.NONE_EXCEPTION && <><dt>Exception</dt><dd><Escaped text={x?.reason ?? ""} />; {x?.expireTime ? <>ends <Time at={x.expireTime} />, given by <Escaped text={x.approvedBy} /></> : "not approved yet"}</dd></>}
          <dt>Owner</dt><dd>{s.owner ? <Escaped text={s.owner} /> : "nobody is named"}</dd>
          {s.description && <><dt>What for</dt><dd><Escaped text={s.description} /></dd></>}
          <dt>Labels</dt><dd>{Object.entries(s.labels).map(([k, v]) => `${k}=${v}`).join(", ") || "none"}</dd>
          <dt>Policy</dt><dd><Anchor component={Link} size="sm" to={`/policies/${encodeURIComponent(s.governancePolicyRef)}`}>{s.governancePolicyRef}</Anchor></dd>
          <dt>Registered</dt><dd><Time at={s.createTime} /> by <Escaped text={s.createdBy} /></dd>
        </dl>
      </Card>
      <Card withBorder>
        <dl className="facts">
          <dt>It calls itself</dt><dd>{s.reported?.name ? <Escaped text={`${s.reported.name} ${s.reported.version}`} /> : "unknown: nobody has met it"}</dd>
          <dt>Protocol</dt><dd>{s.protocolVersion}</dd>
          <dt>Last answered</dt><dd><Time at={s.lastHandshakeAt} otherwise="never" /></dd>
          <dt>Last discovery</dt><dd>{d ? <>{discoveryWord[d.status]} <Time at={d.finishTime} otherwise="" />{d.message && <>: <Escaped text={d.message} /></>}</> : "never"}</dd>
          {d?.succeedTime && <><dt>It found</dt><dd>{count(d.totalTools, "tool")}: {d.newTools} new, {d.changedTools} changed, {d.unchangedTools} unchanged, {d.unavailableTools} gone</dd></>}
          <dt>Bound</dt><dd>{count(s.counts?.boundTools ?? 0, "tool")}, {count(s.counts?.boundResources ?? 0, "resource")}, {count(s.counts?.boundPrompts ?? 0, "prompt")}</dd>
          <dt>Snapshot</dt><dd>{s.snapshotDigest ? <CopyId id={s.snapshotDigest} shown={short(s.snapshotDigest)} label="Copy the digest of the snapshot" /> : "none yet"}</dd>
          <dt>Approved</dt><dd>{s.approvedSnapshotDigest ? <CopyId id={s.approvedSnapshotDigest} shown={short(s.approvedSnapshotDigest)} label="Copy the digest that is approved" /> : "nothing yet"}</dd>
          <dt>Target</dt><dd><CopyId id={s.targetDigest} shown={short(s.targetDigest)} label="Copy the digest of the target" /></dd>
          {s.warnings.length > 0 && <><dt>To know</dt><dd>{s.warnings.join("; ")}</dd></>}
        </dl>
      </Card>
    </SimpleGrid>
  );
}
