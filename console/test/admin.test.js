// Screens of those who operate and govern: the doctor, the audit trail, policies, events, expiries, tools in bulk.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { House } from "./house.js";

let house;
before(async () => {
  // Nobody listens at port 1: the bus takes nothing.
  house = await House.open({ config: "events: {nats: {url: 'nats://127.0.0.1:1'}}\ncommands:\n  - {name: files, argv: [/usr/bin/true], sandbox: none}\n  - {name: theirs, argv: [/usr/bin/true], sandbox: none, tenants: [another]}\n" });
  await house.registered("weather", "", house.protected);
  await house.approved("weather");
});
after(() => house?.close());

test("the doctor examines the installation from its page", async () => {
  const visit = await house.enter("PlatformAdmin", { path: "about" });
  const { page } = visit;
  await page.getByText("Requests are served.").waitFor();
  await page.getByRole("button", { name: "Examine the installation" }).click();
  await page.getByRole("table", { name: "Findings of the examination" }).getByText("row security").waitFor();
  assert.equal(await page.getByText("does not work").count(), 0);
  await visit.close();
});

test("the audit of an object arrives filtered, is verified and exported", async () => {
  const visit = await house.enter("Auditor", { path: "servers/weather" });
  const { page } = visit;
  await page.getByRole("main").getByRole("link", { name: "Audit" }).click();
  await page.getByRole("heading", { name: "Audit" }).waitFor();
  assert.match(page.url(), /object=srv_/);
  await page.getByText("approve", { exact: true }).first().waitFor();
  await page.getByRole("button", { name: "Verify the chain" }).click();
  await page.getByText("The chain is whole").waitFor();
  await house.until("the row is sealed", async () => (await page.getByText(/of the chain/).count()) > 0 || void (await page.getByRole("button", { name: "Refresh" }).click()), 40_000);
  await page.getByRole("button", { name: "Export" }).click();
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("menuitem", { name: /JSON lines/ }).click()]);
  assert.equal(file.suggestedFilename(), "audit.jsonl");
  await visit.close();
});

test("a policy is checked, tested and weighed before it is published", async () => {
  const visit = await house.enter("PlatformAdmin", { path: "policies/new" });
  const { page } = visit;
  const text = page.getByRole("textbox", { name: /The bundle/ });
  await house.until("the bundle is there", async () => (await text.inputValue()).includes("approval"));
  await text.fill("name: strict\nversion: 1\napproval:\n  - name: everything\n    when: nonsense(\n");
  await page.getByRole("button", { name: "Check, test and preview" }).click();
  await page.getByText(/2 faults/).waitFor();
  assert.equal(await page.getByRole("button", { name: "Publish" }).isDisabled(), true);
  await text.fill("name: strict\nversion: 1\ndescription: two people\napproval:\n  - name: everything\n    when: 'true'\n    approvers: 2\n");
  await page.getByRole("button", { name: "Check, test and preview" }).click();
  await page.getByText(/would be unbound/).waitFor();
  await page.getByRole("button", { name: "Publish" }).click();
  await page.getByRole("heading", { name: "strict@1" }).waitFor();
  await page.getByRole("textbox", { name: "Server (id or name)" }).fill("weather");
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByText(/It would unbind \d+ items/).waitFor();
  await visit.close();
});

test("tools are disabled in bulk, after the dry run said which", async () => {
  const visit = await house.enter("PlatformAdmin", { path: "tools?server=weather" });
  const { page } = visit;
  await page.getByRole("button", { name: "Disable what is shown" }).click();
  await page.getByText(/\d+ tools of 1 server would be disabled/).waitFor();
  await page.getByRole("button", { name: "Disable", exact: true }).click();
  await page.getByText("tool_disabled").first().waitFor();
  await page.getByRole("link", { name: "weather.hash_compute" }).click();
  await page.getByText(/^No: /).waitFor();
  await visit.goto("tools?server=weather");
  await page.getByRole("button", { name: "Enable what is shown" }).click();
  await page.getByText(/would be enabled/).waitFor();
  await page.getByRole("button", { name: "Enable", exact: true }).click();
  await page.getByText("callable", { exact: true }).first().waitFor();
  await visit.close();
});

test("a subscription is made, tried and deleted", async () => {
  const visit = await house.enter("PlatformAdmin", { path: "events" });
  const { page } = visit;
  const hook = createServer((_, answer) => answer.writeHead(204).end()).listen(0, "127.0.0.1");
  await new Promise((ready) => hook.once("listening", ready));
  await page.getByRole("button", { name: "New subscription" }).click();
  await page.getByRole("textbox", { name: "Id" }).fill("hook");
  await page.getByRole("textbox", { name: "URL" }).fill(`http://127.0.0.1:${hook.address().port}/`);
  await page.getByRole("textbox", { name: "Secret" }).fill("env:COUNTERSIGN_DEMO_CLIENT_SECRET");
  await page.getByRole("button", { name: "Make the subscription" }).click();
  await page.getByRole("heading", { name: "hook", level: 1 }).waitFor();
  await page.getByRole("button", { name: "Send a test" }).click();
  await page.getByText("delivered", { exact: true }).first().waitFor();
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByText(/\d+ deliver(y|ies) under way and 0 dead letters go with it/).waitFor();
  await page.getByRole("button", { name: "Delete it" }).click();
  await page.getByText("Nobody is told of changes here yet").waitFor();
  hook.close();
  await visit.close();
});

test("what a bus did not take is seen, and sent again", async () => {
  await house.call("EventService/CreateSubscription", { subscriptionId: "idle", direction: "SUBSCRIPTION_DIRECTION_RECEIVE", spec: { secret: "env:COUNTERSIGN_DEMO_CLIENT_SECRET" } });
  const visit = await house.enter("PlatformAdmin", { path: "events" });
  const { page } = visit;
  const bus = page.getByRole("table", { name: "Buses of the installation" }).getByRole("row").filter({ hasText: "installation.nats" });
  await bus.getByText(/deliver(y is|ies are) under way/).waitFor();
  const failed = async (state) => (await house.call("EventService/ListDeliveries", { subscriptionId: "installation.nats", state, pageSize: 200 })).deliveries ?? [];
  await house.until("a delivery has failed", async () => (await failed("DELIVERY_STATE_PENDING")).some((d) => d.attempts > 0));
  await house.failedLongAgo("installation/nats");
  const yesterday = Date.now() - 24 * 3600_000;
  await house.until("all that failed long ago is dead", async () => (await failed("DELIVERY_STATE_DEAD")).length > 0
    && !(await failed("DELIVERY_STATE_PENDING")).some((d) => d.firstAttemptTime && Date.parse(d.firstAttemptTime) < yesterday), 90_000);
  await page.reload();
  await bus.getByText(/dead letter/).waitFor();
  // Of the two lists the keys are of the first, or of the one that one is in.
  await page.getByRole("link", { name: "idle" }).waitFor();
  const focused = () => page.evaluate(() => document.activeElement.textContent);
  await page.keyboard.press("j");
  assert.equal(await focused(), "idle");
  await bus.getByRole("link", { name: "installation.nats" }).focus();
  await page.keyboard.press("k");
  assert.equal(await focused(), "installation.nats");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "installation.nats", level: 1 }).waitFor();
  assert.match(page.url(), /state=dead/);
  const letters = page.getByRole("table", { name: "Deliveries" });
  await letters.getByText("the stream did not take the event").first().waitFor();
  await page.getByRole("button", { name: /^Replay \d+ dead letters?$/ }).click();
  await page.getByText(/\d+ events? on the way again/).waitFor();
  await page.getByText("No delivery is in this state").waitFor();
  await page.getByRole("button", { name: "Show all" }).click();
  await letters.getByText("under way").first().waitFor();
  await house.call("EventService/DeleteSubscription", { subscriptionId: "idle" });
  await visit.close();
  const reader = await house.enter("Auditor", { path: "events/installation.nats" });
  await reader.page.getByRole("table", { name: "Deliveries" }).waitFor();
  assert.equal(await reader.page.getByRole("button", { name: /^Replay/ }).count(), 0, "who may not replay is offered it");
  await reader.close();
});

test("a descriptor is drafted, published and deprecated", async () => {
  const visit = await house.enter("PlatformAdmin", { path: "descriptors" });
  const { page } = visit;
  await page.getByRole("table", { name: "Versions of descriptors" }).getByText("weather.hash_compute 1").waitFor();
  await page.getByRole("button", { name: "New draft" }).click();
  await page.getByRole("textbox", { name: "Id", exact: true }).fill("weather.hash_compute");
  await page.getByRole("textbox", { name: "What it is" }).fill("the second of them");
  await page.getByRole("button", { name: "Draft it" }).click();
  const row = page.getByRole("row").filter({ hasText: "weather.hash_compute 2" });
  await row.getByText("draft", { exact: true }).waitFor();
  await row.getByText("no tool is bound to it").waitFor();
  await row.getByRole("button", { name: "Publish" }).click();
  await page.getByText(/It cannot be changed any more/).waitFor();
  await page.getByRole("button", { name: "Publish it" }).click();
  await row.getByText("published", { exact: true }).waitFor();
  await row.getByRole("button", { name: "Deprecate" }).click();
  await page.getByText("No tool is bound to it.").waitFor();
  await page.getByRole("button", { name: "Deprecate it" }).click();
  await row.getByText("deprecated", { exact: true }).waitFor();
  await visit.goto("descriptors?status=deprecated");
  await page.getByText("1 version", { exact: true }).waitFor();
  await visit.close();
  const reader = await house.enter("Auditor", { path: "descriptors" });
  await reader.page.getByText("weather.hash_compute 2").waitFor();
  assert.equal(await reader.page.getByRole("button", { name: /^(New draft|Publish|Deprecate)$/ }).count(), 0, "who may not change is offered it");
  await reader.close();
});

test("a server and a connection are edited, also while somebody else does", async () => {
  const visit = await house.enter("PlatformAdmin", { path: "servers/weather" });
  const { page } = visit;
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("nothing is changed yet").waitFor();
  await dialog.getByRole("textbox", { name: "Owner" }).fill("mine");
  await dialog.getByText("Nothing is unbound by it.").waitFor();
  const { server } = await house.call("McpServerService/GetMcpServer", { serverId: "weather" });
  await house.call("McpServerService/UpdateMcpServer", { serverId: "weather", etag: server.etag, updateMask: "owner,description", server: { owner: "theirs", description: "of others" } });
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByText("Somebody changed it while you did").waitFor();
  assert.match(visit.faults.splice(0).join(), /^console: .*status of 409 \(Conflict\)$/); // the browser writes that down by itself
  await house.until("theirs is there", async () => (await page.getByText("theirs", { exact: true }).count()) > 0);
  await dialog.getByRole("button", { name: "Keep my changes" }).click();
  assert.equal(await dialog.getByRole("textbox", { name: "What it is for" }).inputValue(), "of others");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByText("weather is changed").waitFor();
  const { server: saved } = await house.call("McpServerService/GetMcpServer", { serverId: "weather" });
  assert.deepEqual([saved.owner, saved.description], ["mine", "of others"]);

  await visit.goto("connections/demo");
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  await dialog.getByRole("textbox", { name: "What it is for" }).fill("for tests");
  await dialog.getByText(/It becomes version 2\. 1 server uses it/).waitFor();
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByText("demo is changed").waitFor();
  await page.getByRole("table", { name: "Versions" }).getByText("2, newest").waitFor();
  await visit.close();
});

test("a registration by command offers the names of commands, and takes others", async () => {
  const visit = await house.enter("PlatformAdmin", { path: "register?by=command" });
  const { page } = visit;
  const command = page.getByRole("combobox", { name: "Command" });
  await visit.settled();
  await command.click();
  await page.getByRole("option", { name: "files", exact: true }).waitFor();
  assert.deepEqual(await page.getByRole("option").allTextContents(), ["files"]);
  await page.getByRole("option", { name: "files", exact: true }).click();
  await page.getByText("--command-ref files --wait").waitFor();
  await command.fill("unheard-of");
  await page.getByText("--command-ref unheard-of --wait").waitFor();
  await command.fill("files");
  await page.getByRole("textbox", { name: "Name" }).fill("local");
  await page.getByRole("combobox", { name: "As whom" }).click();
  await page.getByRole("option", { name: /exception/i }).click();
  await page.getByRole("textbox", { name: "Why without authentication" }).fill("a command of a test");
  await page.getByRole("button", { name: "Register", exact: true }).click();
  await page.getByRole("heading", { name: "local", level: 1 }).waitFor();
  const { server } = await house.call("McpServerService/GetMcpServer", { serverId: "local" });
  assert.equal(server.commandRef, "files");
  await visit.close();
});

test("what is deleted is tried before", async () => {
  await house.call("ConnectionService/CreateConnection", { name: "spare", spec: { baseUrl: "https://spare.example/mcp", authKind: "CONNECTION_AUTH_KIND_NONE" } });
  const visit = await house.enter("PlatformAdmin", { path: "connections/demo" });
  const { page } = visit;
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await dialog.getByText("connection demo is used by weather").waitFor();
  assert.match(visit.faults.splice(0).join(), /^console: .*status of 400 \(Bad Request\)$/); // the browser writes that down by itself
  assert.equal(await dialog.getByRole("button", { name: "Delete it" }).isDisabled(), true);
  assert.equal(await dialog.getByText("What it touches").count(), 0);
  await page.keyboard.press("Escape");
  await visit.goto("connections/spare");
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await dialog.getByText("No live server uses it. 1 version stays").waitFor();
  await house.call("ConnectionService/GetConnection", { name: "spare" });
  await dialog.getByRole("button", { name: "Delete it" }).click();
  await page.getByText("The connection is deleted").waitFor();
  await visit.close();
});

test("keys lead anywhere", async () => {
  const visit = await house.enter("PlatformAdmin", { path: "servers" });
  const { page } = visit;
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "A screen, server or tool" }).fill("hash_comp");
  await page.getByRole("option", { name: /weather\.hash_compute/ }).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "weather.hash_compute", level: 1 }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "A screen, server or tool" }).fill("weath");
  await page.getByRole("option", { name: "weather Server" }).waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).getByText("to the search").waitFor();
  await visit.close();
});
