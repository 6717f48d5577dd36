import { Alert, Button, Checkbox, Code, Group, List, Stack, Text, Textarea } from "@mantine/core";
import { useMutation } from "@connectrpc/connect-query";
import { useEffect, useState } from "react";
import { useNavigate, useSearchParams } from "react-router";

import { useAction } from "../../api/action";
import { useLive } from "../../api/live";
import { PolicyService } from "../../gen/countersign/registry/v1/policy_service_pb";
import { Page } from "../../parts/Page";
import { Problem } from "../../parts/Problem";
import { count } from "../../parts/words";
import { addressOf } from "./Policies";
import { Results } from "./Results";
import { Unfits } from "./Unfits";

const up = [{ label: "Policies", to: "/policies" }];

/** Writes a version of a bundle: it is checked, tested and weighed before it can be published. */
export default function NewPolicy() {
  const [params] = useSearchParams();
  const of = params.get("of") ?? "default";
  const start = useLive(PolicyService.method.getPolicy, { name: of }, { every: 1e9 });
  const [text, setText] = useState("");
  const [allowed, setAllowed] = useState(false);
  const navigate = useNavigate();
  const document = start.data?.policy?.document;
  useEffect(() => { if (document) setText((now) => now || document); }, [document]);
  const check = useMutation(PolicyService.method.checkPolicy);
  const test = useMutation(PolicyService.method.testPolicy);
  const preview = useMutation(PolicyService.method.previewPolicy);
  const publish = useAction(PolicyService.method.publishPolicy, {
    done: (a) => `${a.policy?.name}@${a.policy?.version} is published; ${count(a.unbound.length, "item")} unbound`,
    then: (a) => void navigate(a.policy ? addressOf(a.policy) : "/policies"),
  });
  const edit = (value: string) => {
    setText(value);
    for (const m of [check, test, preview, publish]) m.reset();
    setAllowed(false);
  };
  const weigh = async () => {
    const answer = await check.mutateAsync({ document: text });
    if (answer.problems.length > 0) return;
    await test.mutateAsync({ document: text });
    await preview.mutateAsync({ document: text });
  };
  const clean = check.data && check.data.problems.length === 0;
  const ready = clean && test.data?.passed !== false && preview.data && (preview.data.unbound.length === 0 || allowed);
  return (
    <Page title="New policy" up={up}>
      <Text size="sm">Begun from <Code>{of}</Code>. A new name makes another bundle; a version has to be higher than the last one of its name. What is published never changes.</Text>
      <Problem error={start.error} />
      <Textarea label="The bundle, in YAML or JSON" value={text} onChange={(e) => edit(e.currentTarget.value)} autosize minRows={12} maxRows={32} styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }} spellCheck={false} />
      <Group>
        <Button variant="default" loading={check.isPending || test.isPending || preview.isPending} disabled={!text.trim()} onClick={() => void weigh().catch(() => undefined)}>Check, test and preview</Button>
        <Button disabled={!ready} loading={publish.isPending} onClick={() => publish.mutate({ document: text, allowUnbinding: allowed })}>Publish</Button>
      </Group>
      <Stack gap="xs">
        <Problem error={check.error ?? test.error ?? preview.error ?? publish.error} />
        {check.data && check.data.problems.length > 0 && (
          <Alert color="red" variant="outline" title={count(check.data.problems.length, "fault")}>
            <List size="sm">{check.data.problems.map((p, i) => <List.Item key={i}>line {p.line}, column {p.column}{p.rule && <>, rule <Code>{p.rule}</Code></>}: {p.message}</List.Item>)}</List>
          </Alert>
        )}
        {clean && test.data && <Results of={test.data} />}
        {clean && preview.data && (
          <>
            <Unfits of={preview.data.unbound} none={`Nothing of the ${count(preview.data.servers, "server")} that it governs would be unbound.`} />
            {preview.data.unbound.length > 0 && <Checkbox label="Publish it all the same, and unbind these" checked={allowed} onChange={(e) => setAllowed(e.currentTarget.checked)} />}
          </>
        )}
      </Stack>
    </Page>
  );
}
