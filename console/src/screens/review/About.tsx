import { Alert, Card, Code, SimpleGrid, Text, Title } from "@mantine/core";

import type { GetReviewResponse, Target } from "../../gen/countersign/registry/v1/review_pb";
import { CopyId } from "../../parts/Copy";
import { Escaped } from "../../parts/Escaped";
import { authenticationWord, short } from "../../parts/words";
import { Changes } from "../diff/Changes";
import { TextDiff } from "../diff/TextDiff";

const placeOf = (t: Target | undefined) => (t ? t.command ? t.command.argv.join(" ") : t.url : "");

/** What is signed besides the items: where the server is reached and as whom, and what it tells every model. */
export function About({ of: r, split }: { of: GetReviewResponse; split: boolean }) {
  const moved = r.changedTargetFields.length > 0;
  const told = r.instructions !== r.approvedInstructions && r.approvedInstructions !== "";
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }}>
      <Card withBorder component="section">
        <Title order={2} size="h4" mb="xs">Where, and as whom</Title>
        <dl className="facts">
          <dt>Reached</dt><dd>{moved && r.approvedTarget ? <TextDiff before={placeOf(r.approvedTarget)} after={placeOf(r.target)} split={split} /> : <Escaped text={placeOf(r.target)} />}</dd>
          <dt>As whom</dt><dd>{r.target && authenticationWord[r.target.authentication]}{r.target?.clientId && <>, client <Escaped text={r.target.clientId} /> of <Escaped text={r.target.issuer} /></>}{r.target?.secretRef && <> by <Code>{r.target.secretRef}</Code></>}</dd>
          {moved && <><dt>Moved</dt><dd>{r.changedTargetFields.join(", ")}</dd></>}
          <dt>It calls itself</dt><dd><Escaped text={`${r.reported?.name ?? ""} ${r.reported?.version ?? ""}`} /> ({r.protocolVersion})</dd>
          <dt>Signs</dt><dd><CopyId id={r.review?.digest ?? ""} shown={short(r.review?.digest ?? "")} label="Copy the digest of the review" /></dd>
        </dl>
        {r.diff && r.diff.serverChanges.length > 0 && <Changes of={r.diff.serverChanges} split={split} />}
      </Card>
      <Card withBorder component="section">
        <Title order={2} size="h4" mb="xs">Instructions</Title>
        {r.instructionHints.length > 0 && <Alert color="yellow" variant="outline" title="Look at this twice" mb="xs">{r.instructionHints.map((h) => <div key={h.code + h.path}><Code>{h.code}</Code> <Escaped text={h.detail} /></div>)}</Alert>}
        {r.instructions === "" && !told ? <Text size="sm">It gives none.</Text>
          : told ? <TextDiff before={r.approvedInstructions} after={r.instructions} split={split} />
            : <Text size="sm" className="wrap" style={{ whiteSpace: "pre-wrap" }}><Escaped text={r.instructions} /></Text>}
        {r.gaps.length > 0 && (
          <details>
            <summary>What nobody can check ({r.gaps.length})</summary>
            {r.gaps.map((g) => <Text size="sm" key={g.code}><Code>{g.code}</Code> {g.detail}</Text>)}
          </details>
        )}
      </Card>
    </SimpleGrid>
  );
}
