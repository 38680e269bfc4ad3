// Looks at pages as people see them: the text that a browser shows, after some steps on each page.
//
// usage: node pages.js FOLDER PLAN
//
// FOLDER has the packages. PLAN is a file of JSON:
//
//   {"chromium": program, "profile": folder, "pictures": folder, "pages": [page, ...]}
//
// A page is {"name", "url", "steps"}, and "scheme" and "width" where it is to be seen dark or narrow. A
// step is {"until": [texts]}, which waits until all of them are
// shown; {"click": text}; {"unfold": true}, which opens everything that is folded; or {"points": [names]}, which moves over the charts and notes the values
// that they show beside these names. Prints a line of JSON for each page: {"name", "text", "points",
// "title", "requests", "hidden", "background"} with what was asked for, how many pixels are out of sight at
// the side, and the colour behind the text; or {"name", "problem", "text"} where a step did not come to its end. Ends when its stdin is closed.

const fs = require("fs");
const path = require("path");

const [folder, plan] = process.argv.slice(2);
const { chromium } = require(path.resolve(folder, "node_modules/playwright-core"));

const STEP_LIMIT = 60_000;
const WIDTH = 1400;
const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

const shown = (page) => page.evaluate(() => document.body.innerText);

/// What is written in a table that follows the pointer: `Name Value`, then a row a chart line. A
/// chart that is drawn anew meanwhile is gone for a moment: then all are looked at again.
async function points(page, names) {
  const found = Object.fromEntries(names.map((name) => [name, []]));
  const deadline = Date.now() + STEP_LIMIT;
  for (;;) {
    let gone = false;
    for (const chart of await page.locator("canvas").all()) {
      const box = await chart.boundingBox({ timeout: 1000 }).catch(() => null);
      if (box === null) gone = true;
      else await follow(page, box, found);
    }
    if (!gone || Date.now() > deadline) return found;
  }
}

/// Moves over a chart, and adds the values that are shown.
async function follow(page, box, found) {
  for (let x = 0; x <= box.width; x += 8) {
    await page.mouse.move(box.x + x, box.y + box.height / 2);
    await page.evaluate(
      () => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))),
    );
    for (const line of (await shown(page)).split("\n")) {
      const [name, value, ...more] = line.split("\t");
      const values = found[name];
      if (values && value && more.length === 0 && !values.includes(value)) {
        values.push(value);
      }
    }
  }
}

async function look(page, { url, steps }, told) {
  // Not until everything is loaded: some pages keep a connection open.
  await page.goto(url, { waitUntil: "commit", timeout: STEP_LIMIT });
  for (const step of steps) {
    told.step = step;
    if (step.until) {
      const missing = (texts) => texts.every((text) => document.body?.innerText.includes(text));
      await page.waitForFunction(missing, step.until, { timeout: STEP_LIMIT });
    } else if (step.click) {
      // The last of this name: menus come first.
      const place = page.getByText(step.click, { exact: true }).last();
      await place.click({ timeout: STEP_LIMIT });
    } else if (step.unfold) {
      await page.evaluate(() => {
        for (const one of document.querySelectorAll("details")) one.open = true;
      });
    } else {
      told.points = await points(page, step.points);
    }
  }
}

async function main() {
  const { chromium: program, profile, pictures, pages } = JSON.parse(fs.readFileSync(plan));
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: program,
    headless: true,
    viewport: { width: WIDTH, height: 1000 },
    args: ARGUMENTS,
  });
  process.stdin.on("end", () => browser.close().finally(() => process.exit(1)));
  process.stdin.resume();
  const page = await browser.newPage();
  for (const one of pages) {
    const told = { name: one.name, requests: [] };
    const note = (request) => told.requests.push(request.url());
    page.on("request", note);
    try {
      await page.setViewportSize({ width: one.width ?? WIDTH, height: 1000 });
      await page.emulateMedia({ colorScheme: one.scheme ?? "light" });
      await look(page, one, told);
      delete told.step;
    } catch (error) {
      told.problem = String(error);
    }
    told.text = await shown(page);
    told.title = await page.title();
    Object.assign(
      told,
      await page.evaluate(() => ({
        hidden: document.documentElement.scrollWidth - document.documentElement.clientWidth,
        background: getComputedStyle(document.body).backgroundColor,
      })),
    );
    page.off("request", note);
    await page.screenshot({ path: path.join(pictures, one.name + ".png") });
    console.log(JSON.stringify(told));
  }
  await browser.close();
  process.exit(0);
}

main();
