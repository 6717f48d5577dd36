import "@mantine/core/styles.css";
import "./app.css";

import { TransportProvider } from "@connectrpc/connect-query";
import { MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { useMemo } from "react";
import { BrowserRouter, Navigate, Route, Routes } from "react-router";

import { newQueryClient } from "../api/live";
import { newTransport } from "../api/transport";
import { ConfigContext, SessionContext, useConfig, useSession, useSessionState } from "../auth/context";
import type { Session } from "../auth/session";
import { SignIn } from "../auth/SignIn";
import { type Config, home } from "../config";
import { Notices } from "../parts/Notices";
import { NotThere } from "./NotThere";
import { resolver, theme } from "./theme";
import { screens } from "./screens";
import { Shell } from "./Shell";

export function App({ config, session }: { config: Config; session: Session }) {
  return (
    <MantineProvider theme={theme} cssVariablesResolver={resolver} defaultColorScheme="auto">
      <Notices />
      <ConfigContext value={config}>
        <SessionContext value={session}>
          <Inside />
        </SessionContext>
      </ConfigContext>
    </MantineProvider>
  );
}

function Inside() {
  const { kind } = useSessionState();
  return kind === "in" || kind === "ended" ? <SignedIn /> : <SignIn />;
}

function SignedIn() {
  const config = useConfig();
  const session = useSession();
  const [transport, queries] = useMemo(() => [newTransport(config, session), newQueryClient()], [config, session]);
  return (
    <TransportProvider transport={transport}>
      <QueryClientProvider client={queries}>
        <BrowserRouter basename={home.pathname.replace(/\/$/, "")}>
          <Routes>
            <Route element={<Shell />}>
              <Route index element={<Navigate to="servers" replace />} />
              {screens.map(({ path, page: Page }) => (
                <Route key={path} path={path} element={<Page />} />
              ))}
              <Route path="*" element={<NotThere />} />
            </Route>
          </Routes>
        </BrowserRouter>
      </QueryClientProvider>
    </TransportProvider>
  );
}
