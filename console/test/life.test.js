// The whole life of a server by clicks alone: from the empty state to retired. And what stands between.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { House } from "./house.js";

let house;
before(async () => {
  house = await House.open();
});
after(() => house?.close());

test("the whole life of a server by clicks alone", async () => {
  const visit = await house.enter("PlatformAdmin");
  const { page } = visit;
  await page.getByText("No server is registered yet").waitFor();
  await page.getByRole("button", { name: "Register the demo server" }).click();

  // Its page says what is to be done, and changes by itself.
  await page.getByRole("heading", { name: "demo", level: 1 }).waitFor();
  await page.getByText("It waits for its first review").waitFor();
  await page.getByRole("link", { name: "Review" }).click();

  // Nothing is declared by itself; a class each, and an approval of exactly these.
  await page.getByRole("heading", { name: "Review of demo" }).waitFor();
  await page.getByRole("button", { name: "Approve nothing" }).waitFor();
  await page.getByText("an approval would activate the server with nothing bound").waitFor();
  await page.getByRole("combobox", { name: "Class for all shown tools" }).click();
  await page.getByRole("option", { name: "read", exact: true }).click();
  await page.getByLabel("Comment").fill("looked at");
  await page.getByRole("button", { name: /^Approve \d+ items?$/ }).click();
  await page.getByText("Approved", { exact: true }).first().waitFor();
  // What is decided wants nobody any more.
  await page.getByText("What the policy").waitFor({ state: "detached" });
  assert.doesNotMatch(await page.locator("main#main").innerText(), /nothing changed|not by you/);

  await page.getByRole("link", { name: "To demo" }).click();
  await page.getByText("Active", { exact: true }).first().waitFor();
  await page.getByRole("tab", { name: "Tools" }).click();
  await page.getByText("callable", { exact: true }).first().waitFor();
  for (const [tab, text] of [["Versions", /1, current, approved/], ["Runs", /Open in Temporal/], ["Definition", /state: MCP_SERVER_STATE_ACTIVE/], ["Health", /were good|Never probed/]]) {
    await page.getByRole("tab", { name: tab }).click();
    await page.getByText(text).first().waitFor();
  }

  // What the page says is what the command line says.
  const { server } = await house.call("McpServerService/GetMcpServer", { serverId: "demo" });
  const tools = await house.cli(["tools", "resolve", "demo.hash_compute"]);
  assert.equal(JSON.stringify(tools).includes('"callable":true'), true, JSON.stringify(tools));
  await page.getByText(`${server.counts.boundTools} of ${server.counts.tools} tools bound, ${server.counts.callableTools} callable`).waitFor();

  // Retiring says what it touches, and the numbers change without a reload.
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Retire" }).click();
  await page.getByText(`${server.counts.callableTools} tools of ${server.counts.tools} can be called now`).waitFor();
  await page.getByRole("button", { name: "Retire it for ever" }).click();
  await page.getByText("This server is retired for ever").waitFor();
  await page.getByRole("link", { name: "Servers" }).first().click();
  await page.getByText("No server is registered yet").waitFor();
  await visit.close();
});

test("an approval by two people", async () => {
  await house.registered("pair", "", house.protected);
  const first = await house.enter("AssetMaintainer-2", { path: "inbox" });
  await declare(first.page, "pair", "publication", "one of two");
  await first.page.getByText(/more needed/).first().waitFor();
  const second = await house.enter("PlatformAdmin-2", { path: "inbox?mine=true" });
  await declare(second.page, "pair", "publication", "two of two");
  await second.page.getByRole("link", { name: "To pair" }).waitFor();
  // The first one is told without a reload.
  await first.page.getByText("PlatformAdmin-2").first().waitFor();
  const { server } = await house.call("McpServerService/GetMcpServer", { serverId: "pair" });
  assert.equal(server.state, "MCP_SERVER_STATE_ACTIVE");
  await first.close();
  await second.close();
});

/** Goes from the inbox to a review, and approves every tool as a class. */
async function declare(page, server, side, comment) {
  await page.getByRole("link", { name: server, exact: true }).click();
  await page.getByRole("heading", { name: `Review of ${server}` }).waitFor();
  await page.getByRole("combobox", { name: "Class for all shown tools" }).click();
  await page.getByRole("option", { name: side, exact: true }).click();
  await page.getByLabel("Comment").fill(comment);
  await page.getByRole("button", { name: /^Approve \d+ items?$/ }).click();
}

