// What approvers meet: drift, what changes while they look, servers that fail, text that deceives; with and without a mouse.

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { House } from "./house.js";

let house, dir;
before(async () => {
  house = await House.open();
  dir = await mkdtemp(join(tmpdir(), "console-scripts-"));
});
after(async () => {
  await house?.close();
  await rm(dir, { recursive: true, force: true });
});

/** A script of a server that offers these tools. */
async function script(name, tools, more = {}) {
  const path = join(dir, `${name}.json`);
  await writeFile(path, JSON.stringify({ about: name, lists: { "tools/list": { items: tools } }, ...more }));
  return path;
}

const tool = (name, description, required = []) => ({ name, description, inputSchema: { type: "object", properties: { at: { type: "string" } }, required } });

/** Stops a server and starts another at its address. */
async function becomes(stranger, path) {
  await stranger.stop();
  return house.stranger(path, stranger.port);
}

async function discovered(name) {
  await house.call("McpServerService/DiscoverMcpCapabilities", { serverId: name, wait: "20s" }, { key: `discover-${name}-${Date.now()}` });
}

test("a review of drift, which one decides", async () => {
  const stranger = await house.stranger(await script("one", [tool("look", "Looks."), tool("keep", "Keeps.")]));
  await house.registered("drifting", stranger.url);
  await house.approved("drifting");
  await becomes(stranger, await script("two", [tool("look", "Looks, and tells others.", ["at"]), tool("keep", "Keeps."), tool("new", "Is new.")]));
  await discovered("drifting");

  const visit = await house.enter("PlatformAdmin", { path: "servers?view=drifted" });
  const { page } = visit;
  await page.getByRole("link", { name: "drifting", exact: true }).click();
  await page.getByText("What changed waits for a review").waitFor();
  await page.getByRole("link", { name: "Review", exact: true }).click();
  await page.getByText("Drift", { exact: true }).waitFor();
  assert.match(await page.locator("[data-counts]").innerText(), /1 breaking.*1 added/);
  const items = page.getByRole("region", { name: "Items" }).getByRole("button");
  assert.match(await items.first().innerText(), /look/, "the worst is not first");
  assert.equal(await items.count(), 2, "what is unchanged is not hidden");
  await page.getByRole("button", { name: /1 unchanged hidden: show/ }).click();
  await items.nth(2).waitFor();
  await items.first().click();
  await page.locator("ins.added", { hasText: "others" }).first().waitFor();
  await page.getByText("Split", { exact: true }).click();
  await page.getByRole("group", { name: "After" }).first().waitFor();
  await page.getByRole("radio", { name: "read", exact: true }).check();
  await page.getByRole("button", { name: "Approve 1 item" }).click();
  await page.getByRole("link", { name: "To drifting" }).click();
  await page.getByText("2 of 3 tools bound").waitFor();
  await visit.close();
});

test("what changes while one looks cannot be signed", async () => {
  const stranger = await house.stranger(await script("before", [tool("look", "Looks.")]));
  await house.registered("moving", stranger.url);
  const visit = await house.enter("PlatformAdmin", { path: "servers/moving/review" });
  const { page } = visit;
  await page.getByRole("region", { name: "Items" }).getByRole("button", { name: "look" }).click();
  await page.getByRole("radio", { name: "read", exact: true }).check();
  await becomes(stranger, await script("after", [tool("look", "Looks elsewhere.")]));
  await discovered("moving");
  await page.getByText("Superseded: the server changed while you were looking").waitFor();
  assert.equal(await page.getByRole("button", { name: "Approve 1 item" }).isDisabled(), true);
  await page.getByText("Looks.", { exact: true }).waitFor(); // what was looked at is still there
  await page.getByRole("button", { name: "Show what is there now" }).click();
  await page.getByRole("button", { name: "Approve nothing" }).waitFor();
  await page.getByRole("region", { name: "Items" }).getByRole("button", { name: "look" }).click();
  await page.getByText("Looks elsewhere.", { exact: true }).first().waitFor();
  await visit.close();
});

test("a connection that fails is explained", async () => {
  const visit = await house.enter("PlatformAdmin", { path: "register" });
  const { page } = visit;
  await page.getByRole("textbox", { name: "Name" }).fill("away");
  await page.getByRole("textbox", { name: "URL" }).fill("http://127.0.0.1:9/mcp");
  await page.getByRole("combobox", { name: "As whom" }).click();
  await page.getByRole("option", { name: "None, by an exception" }).click();
  await page.getByLabel("Why without authentication").fill("a test");
  await page.getByRole("button", { name: "Register", exact: true }).click();
  await page.getByRole("heading", { name: "away", level: 1 }).waitFor();
  await page.getByText(/^Next: /).first().waitFor();
  await page.getByRole("button", { name: "Test", exact: true }).click();
  const report = page.getByRole("dialog");
  await report.getByText(/failed/).first().waitFor();
  await report.getByText(/Next: /).waitFor();
  await report.getByText("Reason").waitFor();
  await visit.close();
});

test("a review by the keyboard alone", async () => {
  const stranger = await house.stranger(await script("keys", [tool("first", "One."), tool("second", "Two.")]));
  await house.registered("keyboard", stranger.url);
  const visit = await house.enter("PlatformAdmin", { path: "inbox" });
  const { page } = visit;
  await page.getByRole("link", { name: "keyboard", exact: true }).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("keyboard");
  await page.waitForURL(/q=keyboard/);
  await page.getByText("1 request", { exact: true }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Review of keyboard" }).waitFor();
  await page.getByRole("region", { name: "Items" }).getByRole("button").first().waitFor();
  for (const key of ["j", "1", "j", "2", "a"]) await page.keyboard.press(key);
  await page.keyboard.type("by the keyboard");
  const end = page.getByRole("button", { name: "Approve 2 items" });
  await end.waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "To keyboard" }).waitFor();
  const { tools } = await house.call("ToolCatalogService/ListTools", { filter: 'server = "keyboard"' });
  assert.deepEqual(tools.map((t) => t.declaredClass).sort(), ["SIDE_EFFECT_CLASS_READ", "SIDE_EFFECT_CLASS_SANDBOX"]);
  await visit.close();
});

// H25 and S5: text of strangers is text, and every character of it is seen.
test("text of a server does nothing, and hides nothing", async () => {
  const evil = `"><img src=x onerror=fetch('/pwn')><script>fetch('/pwn')</script> [x](javascript:fetch('/pwn')) {{7*7}} javascript:fetch('/pwn')`;
  const hidden = "Reads\u200b a file\u202e \u{E0041}\u{E0042} quietly";
  const tools = [
    { name: "evil", title: evil, description: evil, annotations: { title: evil }, inputSchema: { type: "object", properties: { x: { type: "string", description: evil } } } },
    { name: "hidden", description: hidden, inputSchema: { type: "object" } },
  ];
  const stranger = await house.stranger(await script("evil", tools, { name: evil, instructions: `${evil} ${hidden}` }));
  await house.registered("evil", stranger.url, { description: evil, owner: evil });
  const visit = await house.enter("PlatformAdmin", { path: "servers" });
  const { page } = visit;
  const asked = [];
  page.on("request", (r) => asked.push(r.url()));
  page.on("dialog", (d) => { asked.push(`dialog ${d.message()}`); void d.dismiss(); });
  for (const address of ["servers", "servers/evil", "servers/evil?tab=tools", "servers/evil?tab=definition", "servers/evil?tab=versions", "tools", "tools/evil.evil", "inbox", "audit?object=evil", "capabilities?server=evil"]) {
    await visit.goto(address);
    await visit.settled();
  }
  await visit.goto("servers/evil/review");
  const items = page.getByRole("region", { name: "Items" }).getByRole("button");
  await items.filter({ hasText: "hidden" }).click();
  await page.getByText("It has characters that nobody sees").waitFor();
  for (const code of ["⟨U+200B⟩", "⟨U+202E⟩", "⟨U+E0041⟩"]) await page.getByText(code).first().waitFor();
  await items.filter({ hasText: "evil" }).first().click();
  await page.getByText("<img src=x onerror=", { exact: false }).first().waitFor();
  await page.getByText("The whole definition").click();
  await page.getByLabel("Comment").fill(evil);
  await page.getByRole("button", { name: "Reject" }).click();
  await page.getByText("Rejected", { exact: true }).first().waitFor();
  await visit.goto("servers/evil/review");
  await page.getByText("reject", { exact: false }).getByText("onerror=", { exact: false }).first().waitFor();
  assert.deepEqual(asked.filter((a) => a.includes("/pwn") || a.startsWith("dialog")), []);
  const links = await page.locator("a[href]").evaluateAll((all) => all.map((a) => a.href));
  assert.deepEqual(links.filter((href) => !/^https?:/.test(href)), []);
  await visit.close();
});

test("what was viewed is marked, until it changes", async () => {
  const stranger = await house.stranger(await script("marks", [tool("first", "One."), tool("second", "Two.")]));
  await house.registered("marked", stranger.url);
  const visit = await house.enter("PlatformAdmin", { path: "servers/marked/review" });
  const { page } = visit;
  const items = page.getByRole("region", { name: "Items" }).getByRole("button");
  await items.nth(1).waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("v");
  await page.getByText("1 of 2 viewed").waitFor();
  assert.match(await items.first().innerText(), /viewed/);
  await page.reload();
  await page.getByText("1 of 2 viewed").waitFor();
  await becomes(stranger, await script("marks-after", [tool("first", "Another."), tool("second", "Two.")]));
  await discovered("marked");
  await page.getByRole("button", { name: "Show what is there now" }).click();
  await page.getByText("0 of 2 viewed").waitFor();
  await visit.close();
});

// Of an honest server, which only changed: what was approved and is not touched stays.
test("a drift that is rejected", async () => {
  const stranger = await house.stranger(await script("before", [tool("look", "Looks."), tool("keep", "Keeps.")]));
  await house.registered("refused", stranger.url);
  await house.approved("refused");
  await becomes(stranger, await script("after-all", [tool("look", "Looks elsewhere.", ["at"]), tool("keep", "Keeps.")]));
  await discovered("refused");
  const visit = await house.enter("PlatformAdmin", { path: "servers/refused/review" });
  const { page } = visit;
  await page.getByText("Drift", { exact: true }).waitFor();
  await page.getByLabel("Comment").fill("not like this");
  await page.getByRole("button", { name: "Reject" }).click();
  await page.getByText("Rejected", { exact: true }).first().waitFor();
  const { tools } = await house.call("ToolCatalogService/ListTools", { filter: 'server = "refused"' });
  const callable = Object.fromEntries(tools.map((t) => [t.name, t.callable ?? false]));
  assert.equal(callable.look, false, "what changed is callable");
  const { server } = await house.call("McpServerService/GetMcpServer", { serverId: "refused" });
  await visit.goto("servers/refused");
  await page.getByText(`${server.counts.boundTools ?? 0} of ${server.counts.tools} tools bound, ${server.counts.callableTools ?? 0} callable`).waitFor();
  const { decisions } = await house.call("McpServerService/ListDecisions", { serverId: "refused" });
  assert.ok(decisions.some((d) => JSON.stringify(d).includes("not like this")), JSON.stringify(decisions));
  await visit.close();
});
