import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { Alert, Anchor, Button, Card, Group, Stack, Text, Textarea, TextInput, Title } from "@mantine/core";
import { useState } from "react";
import { Link } from "react-router";

import { useAction } from "../../api/action";
import { problemOf } from "../../api/problem";
import { useMay } from "../../auth/me";
import { ApprovalService, type GetApprovalResponse } from "../../gen/countersign/registry/v1/approval_service_pb";
import { type GetReviewResponse, ReviewKind } from "../../gen/countersign/registry/v1/review_pb";
import { McpServerService } from "../../gen/countersign/registry/v1/mcp_server_service_pb";
import { type AuthenticationException, McpAuthentication, ReviewStatus } from "../../gen/countersign/registry/v1/types_pb";
import { Escaped } from "../../parts/Escaped";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";
import { classWord, count, reviewWord } from "../../parts/words";
import { Demand } from "./Demand";
import { approvalOf, type Lines } from "./lines";

/** The decision: who has decided, who must, and one's own, bound to the digest of what was looked at. */
export function Decide({ of: r, approval, lines, superseded, reload, authentication, exception }: {
  of: GetReviewResponse;
  approval: GetApprovalResponse | undefined;
  lines: Lines;
  superseded: boolean;
  reload: () => void;
  authentication: McpAuthentication | undefined;
  exception: AuthenticationException | undefined;
}) {
  const may = useMay();
  const m = McpServerService.method;
  const [comment, setComment] = useState("");
  const [until, setUntil] = useState(() => new Date(Date.now() + 30 * 86_400_000).toISOString().slice(0, 10));
  const digest = r.review?.digest ?? "";
  const a = approval?.approval;
  const approve = useAction(m.activateMcpServer, {
    done: (x) => (x.server?.review?.status === ReviewStatus.APPROVED ? "Approved" : `Your approval counts; ${x.server?.review?.peopleMissing ?? 0} more needed`),
  });
  const reject = useAction(m.rejectMcpServer, { done: "Rejected" });
  const withdraw = useAction(ApprovalService.method.withdrawApproval, { done: "Your approval is taken back" });
  const named = approvalOf(r, lines);
  const size = named.tools.length + named.resources.length + named.prompts.length;
  const pending = r.review?.status === ReviewStatus.PENDING;
  const excepted = authentication === McpAuthentication.NONE_EXCEPTION && !exception?.expireTime;
  const decided = approve.data?.server?.review?.status === ReviewStatus.APPROVED || reject.data;
  const failure = approve.error ?? reject.error ?? withdraw.error;
  const stale = failure && ["superseded", "stale_etag", "already_decided"].includes(problemOf(failure).reason);
  const tally = new Map<string, number>();
  for (const t of named.tools) tally.set(classWord[t.class], (tally.get(classWord[t.class]) ?? 0) + 1);
  const byClass = [...tally].map(([c, n]) => `${n} as ${c}`).join(", ");
  return (
    <Card withBorder component="section">
      <Title order={2} size="h4" mb="xs">Decision</Title>
      <Stack gap="sm">
        {!pending && !decided && <Text size="sm">{reviewWord[r.review?.status ?? 0] || "Nothing is asked to be approved"}{r.review?.decidedBy && <> by <Escaped text={r.review.decidedBy} /> <Time at={r.review.decideTime} /></>}</Text>}
        {a && pending && !decided && <div><Text size="sm" fw={600}>What the policy <Anchor component={Link} size="sm" to={`/policies/${encodeURIComponent(a.governancePolicyRef)}`}>{a.governancePolicyRef}</Anchor> wants</Text><Demand of={a} /></div>}
        {approval && approval.decisions.length > 0 && (
          <div>
            <Text size="sm" fw={600}>Decided so far</Text>
            {approval.decisions.map((d) => (
              <Text size="sm" key={d.decisionId}><Escaped text={d.decidedBy} />: {d.verb.replaceAll("_", " ")}{!d.applied && " (refused)"} <Time at={d.decideTime} />{d.comment && <>: <Escaped text={d.comment} /></>}</Text>
            ))}
          </div>
        )}
        {decided && <Alert color="green" variant="outline" role="status" title={reject.data ? "Rejected" : "Approved"}><Anchor component={Link} size="sm" to={`/servers/${encodeURIComponent(r.serverName)}`}>To {r.serverName}</Anchor></Alert>}
        {pending && !decided && may(m.activateMcpServer) && (
          <form onSubmit={(e) => {
            e.preventDefault();
            approve.mutate({
              serverId: r.serverId, digest, etag: "", ...named, empty: size === 0, comment: comment.trim(),
              ...(excepted && { exceptionExpireTime: timestampFromDate(new Date(`${until}T23:59:59`)) }),
            });
          }}>
            <Stack gap="sm">
              <Text size="sm" role="status" data-named={size}>{size ? `It would bind ${count(size, "item")}${byClass ? `: ${byClass}` : ""}. What is not named stays as it was.` : r.kind === ReviewKind.FIRST ? "No item is declared: an approval would activate the server with nothing bound." : "No item is declared: an approval would bind nothing more."}</Text>
              {excepted && <TextInput type="date" label="Without authentication until" required value={until} onChange={(e) => setUntil(e.currentTarget.value)} w={220} />}
              <Textarea id="comment" label="Comment" description="It stays in the audit trail. A rejection needs one." required={a?.demand?.commentRequired} autosize minRows={2} value={comment} onChange={(e) => setComment(e.currentTarget.value)} maxLength={2000} />
              <Group>
                <Button type="submit" disabled={superseded || !a} loading={approve.isPending}>{size ? `Approve ${count(size, "item")}` : "Approve nothing"}</Button>
                <Button variant="default" disabled={superseded || !comment.trim()} loading={reject.isPending} onClick={() => reject.mutate({ serverId: r.serverId, digest, comment: comment.trim() })}>Reject</Button>
                {a?.decided && may(ApprovalService.method.withdrawApproval) && <Button variant="default" loading={withdraw.isPending} onClick={() => withdraw.mutate({ serverId: r.serverId, digest, comment: comment.trim() })}>Take my approval back</Button>}
              </Group>
            </Stack>
          </form>
        )}
        {pending && !may(m.activateMcpServer) && <Text size="sm">Who may decide has the role AssetMaintainer or PlatformAdmin.</Text>}
        <Problem error={failure} />
        {stale && <Group><Button variant="default" onClick={reload}>Show what is there now</Button></Group>}
      </Stack>
    </Card>
  );
}
