import { Alert, Button, Code, Group, List, Text } from "@mantine/core";
import { IconAlertCircle } from "@tabler/icons-react";

import { problemOf } from "../api/problem";
import { Escaped } from "./Escaped";

/** What went wrong, by which reason, and what to do next. Nothing when nothing did. */
export function Problem({ error, title, retry }: { error: unknown; title?: string; retry?: () => void }) {
  if (error === null || error === undefined) return null;
  const p = problemOf(error);
  return (
    <Alert role="alert" color="red" variant="outline" icon={<IconAlertCircle />} title={title ?? <Escaped text={p.message} />} className="wrap">
      {title && <Text size="sm"><Escaped text={p.message} /></Text>}
      {p.nextStep && <Text size="sm">Next: <Escaped text={p.nextStep} /></Text>}
      {p.fields.length > 0 && (
        <List size="sm" mt={4}>
          {p.fields.map((f) => <List.Item key={f.path + f.message}><Code>{f.path}</Code> {f.message}</List.Item>)}
        </List>
      )}
      {(p.reason || retry) && (
        <Group mt="xs" gap="sm">
          {p.reason && <Text size="xs" c="dimmed">Reason <Code>{p.reason}</Code>{p.facts["request_id"] && <> · request <Code>{p.facts["request_id"]}</Code></>}</Text>}
          {retry && <Button size="compact-sm" variant="default" onClick={retry}>Try again</Button>}
        </Group>
      )}
    </Alert>
  );
}
