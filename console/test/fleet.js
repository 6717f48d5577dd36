// How fast screens are of a fleet: node fleet.js SERVERS... has `bench fleet` fill the database of a development process with
// so many servers of ten tools, opens each screen five times, and prints the middle of the times from the click to the
// painted rows, and how long the slowest request of the screen took.

import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { House } from "./house.js";

const rounds = 5;
const row = "table tbody tr";
const screens = [
  ["servers", "servers", row], ["servers, healthy ones", "servers?health=healthy", row], ["servers, a part of a name", "servers?q=s0004", row],
  ["tools", "tools", row], ["tools, a word that all have", "tools?q=looks", row], ["tools, of one server", "tools?q=s000042", row],
  ["health", "health", row], ["inbox", "inbox", row], ["audit", "audit", row],
  ["one server", "servers/s000042", "dl.facts"], ["its tools", "servers/s000042?tab=tools", row], ["a review", "servers/s000050/review", "[aria-label=Items] button"],
];
const middle = (all) => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)];

for (const servers of process.argv.slice(2).map(Number)) {
  const dir = process.env.FLEET_DIR ? `${process.env.FLEET_DIR}${servers}` : await mkdtemp(join(tmpdir(), "console-fleet-"));
  try {
    if (!process.env.FLEET_DIR) {
      await promisify(execFile)(process.env.BENCH, ["fleet", JSON.stringify({ Database: `sqlite:${join(dir, "countersign.db")}`, Tenant: "default", Servers: servers, Tools: 10 })]);
    }
    const house = await House.open({ dir, probeInterval: "24h" });
    const visit = await house.enter("PlatformAdmin", { path: "about", strict: false });
    const { page } = visit;
    await visit.settled();
    const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
    console.log(`\n${servers.toLocaleString("en")} servers, ${(servers * 10).toLocaleString("en")} tools; first paint after ${Math.round(paint)} ms\n\n| screen | click to rows | slowest request |\n|---|---|---|`);
    for (const [name, address, wanted] of screens) {
      const took = [], asked = [];
      for (let n = 0; n < rounds; n++) {
        await visit.goto("about"); // nothing of the round before is remembered
        await visit.settled();
        const [ms, slowest] = await page.evaluate(async ([to, what]) => {
          const go = (path) => { history.pushState(null, "", path); dispatchEvent(new PopStateEvent("popstate")); };
          const base = location.pathname.slice(0, location.pathname.indexOf("/console/") + 9);
          performance.clearResourceTimings();
          const begin = performance.now();
          go(base + to);
          while (!document.querySelector(what) && performance.now() - begin < 15_000) await new Promise(requestAnimationFrame);
          await new Promise(requestAnimationFrame);
          const rows = performance.now() - begin;
          await new Promise((done) => setTimeout(done, 500));
          const asks = performance.getEntriesByType("resource").filter((e) => e.name.includes("/countersign.registry.")).map((e) => e.duration);
          return [rows, Math.max(0, ...asks)];
        }, [address, wanted]);
        took.push(ms);
        asked.push(slowest);
      }
      console.log(`| ${name} | ${Math.round(middle(took))} ms | ${Math.round(middle(asked))} ms |`);
    }
    await visit.close();
    await house.close();
  } finally {
    if (!process.env.FLEET_DIR) await rm(dir, { recursive: true, force: true });
  }
}
