import { Alert, List } from "@mantine/core";
import { IconCircleCheck, IconCircleX } from "@tabler/icons-react";

import type { TestPolicyResponse } from "../../gen/countersign/registry/v1/policy_service_pb";
import { Escaped } from "../../parts/Escaped";
import { count } from "../../parts/words";

/** What the tests of a bundle came to, what failed first. */
export function Results({ of }: { of: TestPolicyResponse }) {
  const failed = of.results.filter((r) => !r.passed);
  if (of.results.length === 0) return <Alert color="blue" variant="outline" title="The bundle has no tests" role="status">A bundle may carry its own tests, which anybody can run.</Alert>;
  if (of.passed) return <Alert color="green" variant="outline" icon={<IconCircleCheck />} role="status" title={`${count(of.results.length, "test")} passed`} />;
  return (
    <Alert color="red" variant="outline" icon={<IconCircleX />} title={`${count(failed.length, "test")} of ${of.results.length} failed`}>
      <List size="sm">
        {failed.map((r) => (
          <List.Item key={r.name}>
            <Escaped text={r.name} />
            <List size="sm" withPadding listStyleType="circle">{r.differences.map((d) => <List.Item key={d}><Escaped text={d} /></List.Item>)}</List>
          </List.Item>
        ))}
      </List>
    </Alert>
  );
}
