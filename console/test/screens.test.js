// Every screen, narrow and wide, light and dark: nothing sticks out, nothing fails, nobody else is asked, and axe finds
// nothing serious.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

import { House } from "./house.js";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const widths = [390, 820, 1440];

let house;
before(async () => {
  house = await House.open();
  await house.registered("weather", house.demo);
  await house.approved("weather");
  await house.registered("waiting", house.demo);
});
after(() => house.close());

/** The addresses of the screens that the navigation shows, and of what lies behind them. */
async function addresses() {
  const visit = await house.enter("PlatformAdmin");
  const shown = await visit.page.getByRole("navigation", { name: "Screens" }).getByRole("link").evaluateAll((links) => links.map((l) => l.getAttribute("href")));
  await visit.close();
  assert.ok(shown.length >= 4, `the navigation shows ${shown}`);
  return [...shown.map((href) => href.replace(/^\/console\//, "")), "policies/default", "policies/new", "events/installation.nats", "connections/demo", "providers/weather", "capabilities?server=weather", "register", "register?by=connection", "servers/weather",
    ...["tools", "resources", "prompts", "versions", "runs", "health", "definition"].map((tab) => `servers/weather?tab=${tab}`), "servers/waiting", "servers/nobody",
    "servers/waiting/review", "servers/weather/review", "tools/weather.hash_compute",
    "audit?object=weather", "nowhere"];
}

test("every screen fits, is sound and accessible", async (t) => {
  const all = await addresses();
  for (const scheme of ["light", "dark"]) {
    const visit = await house.enter("PlatformAdmin", { scheme });
    for (const address of all) {
      await t.test(`${address}, ${scheme}`, async () => {
        await visit.page.setViewportSize({ width: widths.at(-1), height: 900 });
        await visit.goto(address);
        await visit.settled();
        for (const width of widths.toReversed()) {
          await visit.page.setViewportSize({ width, height: 900 });
          const [wide, seen] = await visit.page.evaluate(() => new Promise((done) => {
            requestAnimationFrame(() => requestAnimationFrame(() => done([document.documentElement.scrollWidth, innerWidth])));
          }));
          assert.ok(wide <= seen, `at ${width} px it is ${wide} px wide`);
          assert.deepEqual(await serious(visit.page), [], `at ${width} px`);
        }
        assert.deepEqual(visit.faults.splice(0), []);
      });
    }
    await visit.close();
  }
});

/** Dialogs: where each is, and what opens it. */
const dialogs = {
  "Go to": { at: "servers", open: (page) => page.keyboard.press("Control+k") },
  "Go to, with what was found": {
    at: "servers", name: "Go to", open: async (page) => {
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox", { name: "A screen, server or tool" }).fill("weather");
      await page.getByRole("option", { name: /weather\.hash_compute/ }).waitFor();
    },
  },
  "Go to, with nothing found": {
    at: "servers", name: "Go to", open: async (page) => {
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox", { name: "A screen, server or tool" }).fill("nothing-of-this-name");
      await page.getByText("Nothing has this name").waitFor();
    },
  },
  "Keys": { at: "servers", open: (page) => page.keyboard.press("?") },
  "Delete demo": { at: "connections/demo", open: (page) => page.getByRole("button", { name: "Delete", exact: true }).click() },
  "Edit weather": { at: "servers/weather", open: (page) => page.getByRole("button", { name: "Edit", exact: true }).click() },
  "New subscription": { at: "events", open: (page) => page.getByRole("button", { name: "New subscription" }).click() },
};

test("every dialog fits, is sound and accessible", async (t) => {
  for (const scheme of ["light", "dark"]) {
    const visit = await house.enter("PlatformAdmin", { scheme });
    const { page } = visit;
    for (const [what, { at, name = what, open }] of Object.entries(dialogs)) {
      await t.test(`${what}, ${scheme}`, async () => {
        await page.setViewportSize({ width: widths.at(-1), height: 900 });
        await visit.goto(at);
        await visit.settled();
        await open(page);
        const dialog = page.getByRole("dialog", { name, exact: true });
        await dialog.waitFor();
        await page.getByText("Asking what it would touch").waitFor({ state: "detached" });
        for (const width of widths.toReversed()) {
          await page.setViewportSize({ width, height: 900 });
          const { x, width: wide } = await dialog.boundingBox();
          assert.ok(x >= 0 && x + wide <= width, `at ${width} px it is from ${x} to ${x + wide}`);
          assert.deepEqual(await serious(page), [], `at ${width} px`);
        }
        // The keyboard stays inside, and Escape leads out.
        for (let i = 0; i < 12; i++) await page.keyboard.press("Tab");
        assert.ok(await dialog.evaluate((d) => d.contains(document.activeElement)), "the focus left the dialog");
        await page.keyboard.press("Escape");
        await dialog.waitFor({ state: "detached" });
        assert.deepEqual(visit.faults.splice(0), []);
      });
    }
    await visit.close();
  }
});

/** What axe finds that is serious, also by the one of its experiments that WCAG 2.1 asks for (2.5.3). */
async function serious(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, {
    resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"], rules: { "label-content-name-mismatch": { enabled: true } },
  }));
  return violations.filter((v) => ["serious", "critical"].includes(v.impact))
    .map((v) => `${v.id}: ${v.nodes.map((n) => `${n.html.slice(0, 200)} ${n.failureSummary}`).slice(0, 3).join("; ")}`);
}
