import { Anchor } from "@mantine/core";
import { Link } from "react-router";

import { EmptyState } from "../parts/EmptyState";
import { Page } from "../parts/Page";

export function NotThere() {
  return (
    <Page title="There is no such page">
      <EmptyState kind="missing" title="Nothing is at this address">
        <Anchor component={Link} to="/">To the servers</Anchor>
      </EmptyState>
    </Page>
  );
}
