import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";

import type { Session } from "../auth/session";
import type { Config } from "../config";

/** The methods that the API takes only with a key, so that a request which is sent twice happens once. */
const keyed = new Set(["RegisterMcpServer", "DiscoverMcpCapabilities"]);

export function newTransport(config: Config, session: Session): Transport {
  const authorize: Interceptor = (next) => async (request) => {
    request.header.set("Authorization", `Bearer ${await session.token()}`);
    if (keyed.has(request.method.name) && !request.header.has("Idempotency-Key")) {
      request.header.set("Idempotency-Key", newKey());
    }
    try {
      return await next(request);
    } catch (error) {
      if (ConnectError.from(error).code === Code.Unauthenticated) session.end();
      throw error;
    }
  };
  return createConnectTransport({
    baseUrl: new URL(config.api || "/", location.origin).href.replace(/\/$/, ""),
    interceptors: [authorize],
    defaultTimeoutMs: 60_000,
  });
}

/** A key that nobody used before. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}
