import { createRoot } from "react-dom/client";

import { App } from "./app/App";
import { Session } from "./auth/session";
import { loadConfig } from "./config";

const root = document.getElementById("root")!;

try {
  const config = await loadConfig();
  const session = new Session(config);
  createRoot(root).render(<App config={config} session={session} />);
  await session.start();
} catch (error) {
  root.textContent = `The console cannot start: ${error instanceof Error ? error.message : String(error)}.`;
}
