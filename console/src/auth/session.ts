// Sign-in by the authorization code flow with PKCE (RFC 7636). Tokens are in memory only: a reload asks the issuer
// again, which answers at once while it remembers the browser.

import * as oauth from "oauth4webapi";

import { type Config, home } from "../config";

const pendingKey = "countersign.sign-in"; // of this tab: what the redirect back has to fit
const signedOutKey = "countersign.signed-out";

interface Pending {
  state: string;
  verifier: string;
  returnTo: string;
}

interface Tokens {
  access: string;
  refresh: string;
  ends: number; // in milliseconds since 1970; Infinity when the issuer does not say
}

export type SessionState = { kind: "starting" } | { kind: "in" } | { kind: "out" } | { kind: "ended" } | { kind: "failed"; error: unknown };

/** How long before its end a token is replaced, in milliseconds. */
const early = 60_000;

export class Session {
  state: SessionState = { kind: "starting" };

  private tokens: Tokens | undefined;
  private renewing: Promise<void> | undefined;
  private server: Promise<oauth.AuthorizationServer> | undefined;
  private readonly listeners = new Set<() => void>();
  private readonly client: oauth.Client;

  constructor(private readonly config: Config) {
    this.client = { client_id: config.clientId };
  }

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  snapshot = () => this.state;

  /** Takes the issuer's answer, or goes to ask for one. */
  async start(): Promise<void> {
    try {
      if (!this.config.issuer) {
        this.become({ kind: "out" });
        return;
      }
      const here = new URL(location.href);
      const pending = readPending();
      if (pending && here.searchParams.has("state") && (here.searchParams.has("code") || here.searchParams.has("error"))) {
        sessionStorage.removeItem(pendingKey);
        history.replaceState(null, "", pending.returnTo);
        await this.finish(here, pending);
        this.become({ kind: "in" });
      } else if (sessionStorage.getItem(signedOutKey)) {
        this.become({ kind: "out" });
      } else {
        await this.signIn();
      }
    } catch (error) {
      this.become({ kind: "failed", error });
    }
  }

  /** Leaves the page for the issuer's, which leads back to where one is now. */
  async signIn(): Promise<void> {
    if (!this.config.issuer) {
      this.become({ kind: "out" });
      return;
    }
    try {
      const server = await this.discover();
      if (!server.authorization_endpoint) throw new Error("the issuer signs nobody in: it has no authorization endpoint");
      const again = sessionStorage.getItem(signedOutKey) !== null;
      const pending: Pending = {
        state: oauth.generateRandomState(),
        verifier: oauth.generateRandomCodeVerifier(),
        returnTo: location.pathname + location.search + location.hash,
      };
      const to = new URL(server.authorization_endpoint);
      const ask: Record<string, string> = {
        response_type: "code",
        client_id: this.config.clientId,
        redirect_uri: home.href,
        scope: this.config.scopes.join(" "),
        state: pending.state,
        code_challenge: await oauth.calculatePKCECodeChallenge(pending.verifier),
        code_challenge_method: "S256",
      };
      if (this.config.audience) ask["audience"] = this.config.audience;
      if (again) ask["prompt"] = "login"; // who signed out may be somebody else now
      for (const [name, value] of Object.entries(ask)) to.searchParams.set(name, value);
      sessionStorage.setItem(pendingKey, JSON.stringify(pending));
      sessionStorage.removeItem(signedOutKey);
      location.assign(to);
    } catch (error) {
      this.become({ kind: "failed", error });
    }
  }

  /** Takes a token that a person has from elsewhere, where there is no issuer to ask. */
  paste(token: string): void {
    this.tokens = { access: token, refresh: "", ends: Infinity };
    this.become({ kind: "in" });
  }

  signOut(): void {
    this.tokens = undefined;
    sessionStorage.setItem(signedOutKey, "1");
    this.become({ kind: "out" });
  }

  /** The token of a call, renewed when it is about to end. */
  async token(): Promise<string> {
    if (this.tokens && this.tokens.refresh && Date.now() > this.tokens.ends - early) {
      this.renewing ??= this.renew().finally(() => (this.renewing = undefined));
      await this.renewing;
    }
    if (!this.tokens || Date.now() >= this.tokens.ends) {
      this.end();
      throw new SessionEnded();
    }
    return this.tokens.access;
  }

  /** The API does not take the token any more. */
  end(): void {
    if (this.state.kind === "in") this.become({ kind: "ended" });
  }

  private async finish(here: URL, pending: Pending): Promise<void> {
    const server = await this.discover();
    const answer = oauth.validateAuthResponse(server, this.client, here, pending.state);
    const response = await oauth.authorizationCodeGrantRequest(
      server, this.client, oauth.None(), answer, home.href, pending.verifier, this.insecure(),
    );
    this.keep(await oauth.processAuthorizationCodeResponse(server, this.client, response));
  }

  private async renew(): Promise<void> {
    if (!this.tokens) return;
    try {
      const server = await this.discover();
      const response = await oauth.refreshTokenGrantRequest(server, this.client, oauth.None(), this.tokens.refresh, this.insecure());
      this.keep(await oauth.processRefreshTokenResponse(server, this.client, response));
    } catch {
      if (this.tokens) this.tokens.refresh = ""; // what is left of the old token is used
    }
  }

  private keep(answer: oauth.TokenEndpointResponse): void {
    const life = answer.expires_in;
    this.tokens = {
      access: answer.access_token,
      refresh: answer.refresh_token ?? this.tokens?.refresh ?? "",
      ends: life === undefined ? Infinity : Date.now() + life * 1000,
    };
  }

  private discover(): Promise<oauth.AuthorizationServer> {
    this.server ??= this.discoverOnce().catch((error: unknown) => {
      this.server = undefined;
      throw error;
    });
    return this.server;
  }

  private async discoverOnce(): Promise<oauth.AuthorizationServer> {
    const issuer = new URL(this.config.issuer);
    const openid = await oauth.discoveryRequest(issuer, { algorithm: "oidc", ...this.insecure() });
    if (openid.ok) return oauth.processDiscoveryResponse(issuer, openid);
    return oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, { algorithm: "oauth2", ...this.insecure() }));
  }

  // Issuers without TLS are the development process's own; whether others are trusted is the installation's word.
  private insecure() {
    return { [oauth.allowInsecureRequests]: this.config.issuer.startsWith("http:") };
  }

  private become(state: SessionState): void {
    this.state = state;
    for (const listener of this.listeners) listener();
  }
}

export class SessionEnded extends Error {
  constructor() {
    super("the sign-in has ended");
  }
}

function readPending(): Pending | undefined {
  const text = sessionStorage.getItem(pendingKey);
  return text ? (JSON.parse(text) as Pending) : undefined;
}
