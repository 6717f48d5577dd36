import { createContext, use, useSyncExternalStore } from "react";

import type { Config } from "../config";
import type { Session } from "./session";

export const SessionContext = createContext<Session | undefined>(undefined);
export const ConfigContext = createContext<Config | undefined>(undefined);

export function useSession(): Session {
  const session = use(SessionContext);
  if (!session) throw new Error("no session around");
  return session;
}

export function useSessionState() {
  const session = useSession();
  return useSyncExternalStore(session.subscribe, session.snapshot);
}

export function useConfig(): Config {
  const config = use(ConfigContext);
  if (!config) throw new Error("no configuration around");
  return config;
}
