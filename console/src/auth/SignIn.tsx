import { Button, Center, Group, Loader, Paper, PasswordInput, Stack, Text, Title } from "@mantine/core";
import { useState } from "react";

import { problemOf } from "../api/problem";
import { useConfig, useSession, useSessionState } from "./context";

/** What is there instead of the console while nobody is signed in. */
export function SignIn() {
  const session = useSession();
  const state = useSessionState();
  const { issuer } = useConfig();
  return (
    <Center component="main" mih="100vh" p="md">
      <Paper withBorder p="xl" w={440} maw="100%">
        <Stack>
          <Title order={1} size="h2">Countersign</Title>
          {state.kind === "starting" && (
            <Group>
              <Loader size="sm" aria-hidden />
              <Text role="status">Signing in at {issuer}</Text>
            </Group>
          )}
          {issuer && state.kind === "out" && <Text>You are signed out. Nothing of the session was stored.</Text>}
          {state.kind === "failed" && (
            <div role="alert">
              <Text fw={600}>Nobody could be signed in</Text>
              <Text className="wrap">{problemOf(state.error).message}</Text>
              <Text c="dimmed" size="sm" mt="xs" className="wrap">
                The issuer is {issuer}. It must know this console as a client and its address as a redirect.
              </Text>
            </div>
          )}
          {!issuer && <Paste />}
          {issuer && state.kind !== "starting" && <Button onClick={() => void session.signIn()}>Sign in</Button>}
        </Stack>
      </Paper>
    </Center>
  );
}

/** Takes a token, where the installation knows tokens of its own file only. */
function Paste() {
  const session = useSession();
  const [token, setToken] = useState("");
  return (
    <form onSubmit={(e) => { e.preventDefault(); session.paste(token.trim()); }}>
      <Stack>
        <PasswordInput label="Token" description="Of the installation's own file. It stays in this page's memory alone." required autoComplete="off" value={token} onChange={(e) => setToken(e.currentTarget.value)} />
        <Button type="submit" disabled={!token.trim()}>Sign in</Button>
      </Stack>
    </form>
  );
}
