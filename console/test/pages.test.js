// What holds for all pages: who sees what, what an address keeps, that numbers agree, and what the browser is told.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { House } from "./house.js";

let house;
before(async () => {
  house = await House.open();
  await house.registered("weather", "", house.protected);
  await house.approved("weather");
  await house.registered("waiting", house.demo);
});
after(() => house?.close());

test("the policy of the pages lets no script run that stands in them", async () => {
  const answer = await fetch(`${house.url}/console/servers`, { headers: { Accept: "text/html" } });
  const policy = answer.headers.get("content-security-policy");
  assert.match(policy, /script-src 'self';/);
  assert.match(policy, /frame-ancestors 'none'/);
  assert.doesNotMatch(policy.match(/script-src[^;]*/)[0], /unsafe/);
  assert.doesNotMatch(await answer.text(), /<script>|onload=/);
  // And the browser abides by it.
  const visit = await house.enter("Observer", { path: "about", strict: false });
  const ran = await visit.page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "globalThis.pwned = true";
    document.body.append(script);
    return globalThis.pwned === true;
  });
  assert.equal(ran, false);
  await visit.close();
});

test("a reload keeps what was chosen, and the way back works", async () => {
  const visit = await house.enter("PlatformAdmin");
  const { page } = visit;
  for (const address of ["servers?view=review&q=wait&state=verified", "tools?server=weather&callable=true", "audit?object=weather&outcome=applied", "inbox?mine=true", "servers/weather?tab=versions", "health?period=604800"]) {
    await visit.goto(address);
    await visit.settled();
    await page.reload();
    await page.getByRole("heading", { level: 1 }).waitFor();
    await visit.settled();
    assert.equal(page.url(), `${house.url}/console/${address}`);
  }
  await visit.goto("servers?view=review&q=wait&state=verified");
  assert.equal(await page.getByRole("searchbox", { name: "Search by name" }).or(page.getByRole("textbox", { name: "Search by name" })).inputValue(), "wait");
  await page.getByRole("link", { name: "waiting", exact: true }).click();
  await page.getByRole("heading", { name: "waiting", level: 1 }).waitFor();
  await page.goBack();
  await page.getByRole("button", { name: "Clear the filters" }).waitFor();
  assert.match(page.url(), /view=review/);
  await visit.close();
});

test("another tenant's addresses show nothing", async () => {
  const { server } = await house.call("McpServerService/GetMcpServer", { serverId: "weather" });
  const visit = await house.enter("PlatformAdmin", { tenant: "other" });
  const { page } = visit;
  await page.getByText("No server is registered yet").waitFor();
  for (const address of [`servers/${server.serverId}`, "servers/weather", "servers/weather/review", "tools/weather.hash_compute", `capabilities?server=${server.serverId}`]) {
    await visit.goto(address);
    await page.locator('[data-empty="missing"]').waitFor();
    assert.doesNotMatch(await page.getByRole("main").innerText(), /callable|Approved|hash_compute\s+—|Deterministic/i);
  }
  await visit.goto("audit?object=weather");
  await page.locator('[data-empty="no-match"]').waitFor();
  await visit.goto("tools");
  await page.getByText("There is no tool yet").waitFor();
  await visit.close();
});

test("where there is no issuer one pastes a token", async () => {
  const context = await house.browser.newContext();
  const page = await context.newPage();
  await page.route("**/console/config.json", async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...(await answer.json()), issuer: "", clientId: "" } });
  });
  await page.goto(`${house.url}/console/servers`);
  await page.getByLabel("Token").fill(house.token("Observer"));
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("link", { name: "weather", exact: true }).waitFor();
  assert.equal(await page.evaluate(() => Object.keys({ ...localStorage, ...sessionStorage }).some((k) => /token/i.test(k))), false);
  await context.close();
});

test("roles decide what is offered", async () => {
  const visit = await house.enter("Observer", { path: "servers" });
  const { page } = visit;
  await page.getByRole("link", { name: "weather", exact: true }).waitFor();
  assert.equal(await page.getByRole("link", { name: "Register a server" }).count(), 0);
  await page.getByRole("link", { name: "weather", exact: true }).click();
  await page.getByRole("tab", { name: "Tools" }).click();
  await page.getByRole("switch").first().waitFor();
  for (const name of ["Test", "Discover", "More"]) assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0, name);
  assert.equal(await page.getByRole("switch").first().isDisabled(), true);
  await visit.goto("servers/waiting/review");
  await page.getByText("Who may decide has the role").waitFor();
  await visit.goto("audit");
  await page.locator('[data-empty="withheld"]').waitFor();
  await visit.close();
});

/** The number in a text such as "Drifted (3)". */
const numberIn = (text) => Number(text.replaceAll(/[^0-9]/g, ""));

test("numbers that mean the same are the same, on every screen and on the command line", async () => {
  const visit = await house.enter("PlatformAdmin", { path: "servers" });
  const { page } = visit;
  await page.getByRole("button", { name: /^All \(\d/ }).waitFor();
  const views = {};
  for (const name of ["All", "Needs review", "Drifted", "Unhealthy", "Expiring"]) views[name] = numberIn(await page.getByRole("button", { name: new RegExp(`^${name} \\(`) }).innerText());
  for (const [name, n] of Object.entries(views)) {
    await page.getByRole("button", { name: new RegExp(`^${name} \\(`) }).click();
    await house.until(`${name} lists ${n}`, async () => (await page.locator("table.list:not(.stale) tbody tr").count()) === n);
  }
  const listed = await house.cli(["server", "list"]);
  assert.equal(listed.length, views.All);
  await visit.goto("inbox");
  await page.getByText(`${views["Needs review"]} request`, { exact: false }).first().waitFor();
  await visit.goto("health");
  await page.getByText(`${views.All} live servers`).waitFor();
  for (const server of listed) {
    await visit.goto(`servers/${server.name}`);
    const said = await page.locator("[data-server-state]").innerText();
    assert.ok(said.includes(`${server.counts?.boundTools ?? 0} of ${server.counts?.tools ?? 0} tools bound`), `${server.name}: ${said}`);
    assert.ok(said.toLowerCase().includes(server.state.replace("MCP_SERVER_STATE_", "").toLowerCase()), said);
  }
  // After an action the numbers that it touches change without a reload.
  await visit.goto("servers/weather?tab=tools");
  const first = page.getByRole("switch").first();
  await first.waitFor();
  const before = numberIn((await page.locator("[data-server-state]").innerText()).match(/(\d+) callable/)[1]);
  await first.click();
  await page.getByText(`${before - 1} callable`).waitFor();
  await first.click();
  await page.getByText(`${before} callable`).waitFor();
  await visit.close();
});
