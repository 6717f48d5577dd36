// A development process with the programs around it, and a browser that watches every page it opens.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { chromium } from "playwright-core";

const programs = process.env.CONSOLE_TEST_PROGRAMS;
const chrome = process.env.CHROMIUM ?? "/usr/bin/chromium";
export const patience = 30_000;

async function freePort() {
  const server = createServer();
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const { port } = server.address();
  await new Promise((closed) => server.close(closed));
  return port;
}

/** Starts a program and waits for what it says when it is ready. */
async function start(name, args, ready, env = {}) {
  assert.ok(programs, "CONSOLE_TEST_PROGRAMS says where the programs are: use make test-console");
  const child = spawn(join(programs, name), args, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...env } });
  let said = "";
  await new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`${name} is not ready:\n${said}`)), patience);
    const hear = (chunk) => {
      said += chunk;
      if (ready.test(said)) {
        clearTimeout(late);
        resolve();
      }
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.once("exit", (code) => reject(new Error(`${name} ended with ${code}:\n${said}`)));
  });
  child.removeAllListeners("exit");
  process.on("exit", () => child.kill("SIGKILL")); // also when a test died
  return {
    said: () => said,
    stop: async () => {
      if (child.exitCode !== null) return;
      const over = new Promise((ended) => child.once("exit", ended));
      child.kill("SIGTERM");
      const hard = setTimeout(() => child.kill("SIGKILL"), 15_000);
      await over;
      clearTimeout(hard);
    },
  };
}

/** The whole product in one process, on ports and data of its own. */
export class House {
  static async open({ probeInterval = "2s", config = "", dir = "" } = {}) {
    const house = new House();
    house.keep = dir !== "";
    house.dir = dir || await mkdtemp(join(tmpdir(), "console-test-"));
    const [api, temporal, ui, demo] = await Promise.all([freePort(), freePort(), freePort(), freePort()]);
    house.url = `http://127.0.0.1:${api}`;
    house.demo = `http://127.0.0.1:${demo}/open/mcp`;
    house.protected = { endpointRef: "demo", authentication: "MCP_AUTHENTICATION_OAUTH2_PROTECTED_RESOURCE", exceptionReason: "" };
    house.demoControl = `http://127.0.0.1:${demo}/demo`;
    const args = ["--listen", `127.0.0.1:${api}`, "--temporal-listen", `127.0.0.1:${temporal}`, "--temporal-ui-listen", `127.0.0.1:${ui}`,
      "--demo-listen", `127.0.0.1:${demo}`, "--data-dir", house.dir, "--probe-interval", probeInterval];
    if (config) {
      const file = join(house.dir, "config.yaml");
      await writeFile(file, config);
      args.push("--config", file);
    }
    house.process = await start("countersign-dev", args, /tools resolve demo\.hash_compute/);
    house.tokens = JSON.parse(await readFile(join(house.dir, "tokens.json"), "utf8"));
    house.browser = await chromium.launch({ executablePath: chrome, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
    house.strangers = [];
    return house;
  }

  async close() {
    await this.browser.close();
    for (const stranger of this.strangers) await stranger.stop();
    await this.process.stop();
    if (!this.keep) await rm(this.dir, { recursive: true, force: true });
  }

  /** An MCP server as a script of mcptest says; start it again on the same port to have it changed. */
  async stranger(script, port) {
    port ??= await freePort();
    const args = ["-script", script, "-listen", `127.0.0.1:${port}`];
    const running = await start("faulty", args, /http:\/\/127\.0\.0\.1:\d+/);
    this.strangers.push(running);
    return { url: `http://127.0.0.1:${port}/mcp`, port, said: running.said, stop: running.stop };
  }

  /** Runs the command line client as somebody and gives what it prints, read as JSON. */
  async cli(args, { role = "PlatformAdmin", tenant = "default" } = {}) {
    const { stdout } = await promisify(execFile)(join(programs, "countersign"), [...args, "-o", "json"], {
      env: { ...process.env, HOME: this.dir, COUNTERSIGN_SERVER: this.url, COUNTERSIGN_TOKEN: this.token(role, tenant) },
    });
    return stdout ? JSON.parse(stdout) : undefined;
  }

  /** Lets a sink of events look as if it had failed for two days: its next failure is a dead letter. */
  async failedLongAgo(sink) {
    await promisify(execFile)(join(programs, "longago"), [join(this.dir, "countersign.db"), sink]);
  }

  token(role, tenant = "default") {
    return tenant === "default" ? this.tokens[role] : this.tokens[tenant][role];
  }

  /** Calls the API as a program. */
  async call(method, body = {}, { role = "PlatformAdmin", tenant = "default", key } = {}) {
    const response = await fetch(`${this.url}/countersign.registry.v1.${method}`, {
      method: "POST", body: JSON.stringify(body),
      headers: { "Authorization": `Bearer ${this.token(role, tenant)}`, "Content-Type": "application/json", ...(key ? { "Idempotency-Key": key } : {}) },
    });
    const answer = await response.json();
    assert.equal(response.status, 200, `${method}: ${JSON.stringify(answer)}`);
    return answer;
  }

  /** Registers a server by the API and waits until it is discovered. */
  async registered(name, url, more = {}) {
    await this.call("McpServerService/RegisterMcpServer", {
      name, direction: "MCP_DIRECTION_CONSUMED", transport: "MCP_TRANSPORT_STREAMABLE_HTTP", endpointUrl: url, authentication: "MCP_AUTHENTICATION_NONE_EXCEPTION",
      exceptionReason: "a server of a test", governancePolicyRef: "default", protocolVersion: "2026-07-28", ...more,
    }, { key: `register-${name}` });
    return this.until(`${name} is verified`, async () => {
      const { server } = await this.call("McpServerService/GetMcpServer", { serverId: name });
      return server.state === "MCP_SERVER_STATE_VERIFIED" && server;
    });
  }

  /** Approves every tool of a server by the command line. */
  async approved(name) {
    await this.cli(["server", "approve", name, "--all", "--class", "read", "--yes", ...(await this.exception(name))]);
  }

  async exception(name) {
    const { server } = await this.call("McpServerService/GetMcpServer", { serverId: name });
    return server.authentication === "MCP_AUTHENTICATION_NONE_EXCEPTION" ? ["--exception-expires", "720h"] : [];
  }

  async until(what, check, limit = patience) {
    const end = Date.now() + limit;
    for (;;) {
      const got = await check();
      if (got) return got;
      assert.ok(Date.now() < end, `not within ${limit} ms: ${what}`);
      await new Promise((again) => setTimeout(again, 200));
    }
  }

  /**
   * Opens an address of the console as somebody who signs in by clicking: PlatformAdmin, AssetMaintainer-2 and so on.
   * Whatever the page complains of and whomever else it asks, fails the test at `close`.
   */
  async enter(who, { path = "", tenant = "default", width = 1440, height = 900, scheme = "light", strict = true } = {}) {
    const context = await this.browser.newContext({
      viewport: { width, height }, colorScheme: scheme, reducedMotion: "reduce", permissions: ["clipboard-read", "clipboard-write"],
    });
    const page = await context.newPage();
    page.setDefaultTimeout(patience);
    const faults = [];
    // A 404 is what the API answers about what is not there; the browser writes that down by itself.
    page.on("console", (m) => { if (m.type() === "error" && !/status of 404/.test(m.text())) faults.push(`console: ${m.text()}`); });
    page.on("pageerror", (e) => faults.push(`error: ${e}`));
    page.on("request", (r) => {
      if (!r.url().startsWith(`${this.url}/`) && !r.url().startsWith("blob:") && !r.url().startsWith("data:")) faults.push(`asks ${r.url()}`);
    });
    await page.goto(`${this.url}/console/${path}`);
    await page.getByRole("button", { name: `dev-${who} ` }).and(page.locator(`[value="${tenant}/dev-${who}"]`)).click();
    // A screen's own, in the frame: the pages of the sign-in have headings too.
    const shown = () => page.locator("main#main").getByRole("heading", { level: 1 }).waitFor();
    await shown();
    return {
      page, faults,
      /** Waits until nothing is being loaded. */
      settled: async () => {
        await page.waitForLoadState("networkidle");
        await page.locator('[aria-label="Loading"], [aria-label="Loading the screen"]').first().waitFor({ state: "detached" });
      },
      goto: async (to) => {
        await page.goto(`${this.url}/console/${to}`);
        await shown();
      },
      close: async () => {
        await context.close();
        if (strict) assert.deepEqual(faults, []);
      },
    };
  }
}
