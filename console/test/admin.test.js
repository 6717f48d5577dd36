// Screens of those who operate and govern: the doctor, the audit trail, policies, events, expiries, tools in bulk.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { House } from "./house.js";

let house;
before(async () => {
  house = await House.open();
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
  await page.getByText(/go with it/).waitFor();
  await page.getByRole("button", { name: "Delete it" }).click();
  await page.getByText("Nobody is told of changes here yet").waitFor();
  hook.close();
  await visit.close();
});
