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
  return [...shown.map((href) => href.replace(/^\/console\//, "")), "policies/default", "policies/new", "connections/demo", "providers/weather", "capabilities?server=weather",
    "audit?object=weather", "nowhere"];
}

test("every screen fits, is sound and accessible", async (t) => {
  const all = await addresses();
  for (const scheme of ["light", "dark"]) {
    for (const width of widths) {
      const visit = await house.enter("PlatformAdmin", { width, scheme });
      for (const address of all) {
        await t.test(`${address} at ${width} px, ${scheme}`, async () => {
          await visit.goto(address);
          await visit.settled();
          const [wide, seen] = await visit.page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
          assert.ok(wide <= seen, `it is ${wide} px wide`);
          await visit.page.evaluate(axe);
          // The rule that is left out is one of axe's experiments.
          const { violations } = await visit.page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"], rules: { "label-content-name-mismatch": { enabled: false } } }));
          const bad = violations.filter((v) => ["serious", "critical"].includes(v.impact));
          assert.deepEqual(bad.map((v) => `${v.id}: ${v.nodes.map((n) => `${n.html.slice(0, 200)} ${n.failureSummary}`).slice(0, 3).join("; ")}`), []);
          assert.deepEqual(visit.faults.splice(0), []);
        });
      }
      await visit.close();
    }
  }
});
