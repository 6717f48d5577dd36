import { Anchor, Breadcrumbs, Group, Stack, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import type { ReactNode } from "react";
import { Link } from "react-router";

/** The frame of a screen: its title, the way up, and what one can do. */
export function Page({ title, heading, up, actions, children }: {
  title: string; // of the tab, and the heading's unless there is another
  heading?: ReactNode;
  up?: { label: string; to: string }[];
  actions?: ReactNode;
  children: ReactNode;
}) {
  useDocumentTitle(`${title} · Countersign`);
  return (
    <Stack gap="md">
      <Group justify="space-between" align="flex-end" gap="sm">
        <div style={{ minWidth: 0 }}>
          {up && (
            <Breadcrumbs separatorMargin={6} mb={2}>
              {up.map(({ label, to }) => <Anchor key={to} component={Link} to={to} size="sm">{label}</Anchor>)}
            </Breadcrumbs>
          )}
          <Title order={1} size="h2" className="wrap">{heading ?? title}</Title>
        </div>
        {actions && <Group gap="xs">{actions}</Group>}
      </Group>
      {children}
    </Stack>
  );
}
