import { Alert, Anchor, Button, Group, Loader, Text } from "@mantine/core";
import { IconArrowRight } from "@tabler/icons-react";
import { Link } from "react-router";

import { useAction } from "../../api/action";
import { useMay } from "../../auth/me";
import { McpServerService } from "../../gen/countersign/registry/v1/mcp_server_service_pb";
import { DiscoveryStatus, LaunchStatus, type McpServer, McpServerState, ReviewStatus } from "../../gen/countersign/registry/v1/types_pb";
import { Escaped } from "../../parts/Escaped";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";

/** The one thing that is to be done next, and by whom; nothing when nothing is. */
export function NextAction({ of: s }: { of: McpServer }) {
  const may = useMay();
  const m = McpServerService.method;
  const launch = useAction(m.approveLaunch, { done: "The command may be started" });
  const ask = useAction(m.requestReview, { done: "A review is asked for" });
  const h = s.health;
  if (s.state === McpServerState.RETIRED) {
    return <Alert color="gray" variant="outline" title="This server is retired for ever">Its name is free. What it was stays in the audit trail and in its versions.</Alert>;
  }
  if (s.discovery?.status === DiscoveryStatus.RUNNING) {
    return (
      <Alert color="blue" variant="outline" role="status" title="A discovery is under way">
        <Group gap="xs"><Loader size="xs" aria-hidden /><Text size="sm">Connecting, shaking hands and listing what it offers. <Anchor component={Link} size="sm" to="?tab=runs">Its steps</Anchor></Text></Group>
      </Alert>
    );
  }
  if (s.launch?.status === LaunchStatus.PENDING && s.command) {
    return (
      <Alert color="yellow" variant="outline" title="Its process is not started before exactly this command is approved">
        <pre className="code">{s.command.argv.join(" ")}</pre>
        {may(m.approveLaunch) && <Button mt="xs" size="compact-md" loading={launch.isPending} onClick={() => launch.mutate({ serverId: s.serverId, digest: s.targetDigest, etag: s.etag })}>Approve the launch</Button>}
        <Problem error={launch.error} />
      </Alert>
    );
  }
  if (s.review?.status === ReviewStatus.PENDING) {
    return (
      <Alert color="yellow" variant="outline" title={s.approvedSnapshotDigest ? "What changed waits for a review" : "It waits for its first review"}>
        <Text size="sm">Asked for by <Escaped text={s.review.requestedBy} /> <Time at={s.review.openTime} />{s.review.peopleMissing > 0 && s.review.votes.length > 0 && `; ${s.review.votes.length} approved, ${s.review.peopleMissing} more needed`}. The request ends <Time at={s.review.expireTime} otherwise="never" />.</Text>
        <Button mt="xs" size="compact-md" component={Link} to={`/servers/${encodeURIComponent(s.name)}/review`} rightSection={<IconArrowRight size={14} />}>Review</Button>
      </Alert>
    );
  }
  if (s.state === McpServerState.VERIFIED && may(m.requestReview)) {
    return (
      <Alert color="yellow" variant="outline" title={h?.summary}>
        <Button size="compact-md" loading={ask.isPending} onClick={() => ask.mutate({ serverId: s.serverId, etag: s.etag })}>Request a review</Button>
        <Problem error={ask.error} />
      </Alert>
    );
  }
  if (!h?.nextStep) return null;
  return (
    <Alert color="red" variant="outline" title={<Escaped text={h.summary} />}>
      <Text size="sm">Next: <Escaped text={h.nextStep} />{h.whoCanAct.length > 0 && ` (${h.whoCanAct.join(", ")})`}</Text>
      <Text size="xs" c="dimmed">Since <Time at={h.since} otherwise="an unknown time" /> · {h.reason}</Text>
    </Alert>
  );
}
