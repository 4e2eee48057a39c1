// packages/pusher-js-recovery as npm would publish it: what is in it, `import`, `require`, types, the example.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import readline from "node:readline";
import { test } from "node:test";
import { promisify } from "node:util";

import { server, unique, within } from "./clients.js";
import { app, Weir } from "./weir.js";

const ROOT = path.resolve(import.meta.dirname, "../../..");
const PACKAGE = path.join(ROOT, "packages/pusher-js-recovery");
const MODULES = path.resolve(import.meta.dirname, "../node_modules");
const execute = promisify(execFile);

/** A folder that is removed when the test ends. */
async function folder(context) {
  const created = await mkdtemp(path.join(tmpdir(), "weir-e2e-"));
  context.after(() => rm(created, { recursive: true, force: true }));
  return created;
}

const PROGRAM = `
const functions = [recovery.installRecovery, recovery.onGap, recovery.onRecovered];
recovery.installRecovery(Pusher);
console.log(functions.map((it) => typeof it).join());
`;

test("the packed package has what it exports, for import and require", async (context) => {
  const place = await folder(context);
  await execute("npm", ["pack", "--silent", "--pack-destination", place], { cwd: PACKAGE });
  await writeFile(path.join(place, "package.json"), "{}");
  const install = ["install", "--offline", "--silent", "--no-audit", "--no-fund", "--legacy-peer-deps", "./weir-pusher-js-recovery-0.1.0.tgz"];
  await execute("npm", install, { cwd: place });
  await symlink(path.join(MODULES, "pusher-js"), path.join(place, "node_modules/pusher-js"));
  const forms = {
    "a.mjs": 'import Pusher from "pusher-js";\nimport * as recovery from "weir-pusher-js-recovery";',
    "b.cjs": 'const Pusher = require("pusher-js");\nconst recovery = require("weir-pusher-js-recovery");',
  };
  for (const [file, head] of Object.entries(forms)) {
    await writeFile(path.join(place, file), head + PROGRAM);
    const { stdout } = await execute("node", [file], { cwd: place });
    assert.equal(stdout, "function,function,function\n", file);
  }
});

test("the CommonJS files are those that the build writes", async () => {
  const text = (file) => readFile(path.join(PACKAGE, file), "utf8");
  const expected = (await text("recovery.mjs")).replace(/^export (\{ .* \});$/m, "module.exports = $1;");
  assert.match(expected, /^module\.exports = \{ installRecovery, /m);
  assert.equal(await text("recovery.cjs"), expected);
  assert.equal(await text("recovery.d.cts"), await text("recovery.d.ts"));
});

test("its types fit those of pusher-js and laravel-echo", async (context) => {
  const place = await folder(context);
  await symlink(MODULES, path.join(place, "node_modules"));
  await writeFile(path.join(place, "good.mts"), `
import Echo from "laravel-echo";
import Pusher from "pusher-js";
import { installRecovery, onGap, onRecovered } from "weir-pusher-js-recovery";
installRecovery(Pusher, { memberChanges: (name) => name.startsWith("presence-") });
const pusher = new Pusher("key", { cluster: "" });
const echo = new Echo({ broadcaster: "pusher", key: "key", client: pusher });
const end: () => void = onGap(pusher.subscribe("orders"), ({ epoch, offset }) => epoch.slice(offset));
onRecovered(echo.channel("orders"), ({ events }) => events + 1);
onGap(echo.private("orders"), end);
onGap(echo.join("orders"), end);
// @ts-expect-error: a name is no channel
onGap("orders", end);
// @ts-expect-error: events is a number
onRecovered(echo.channel("orders"), ({ events }) => events.length);
`);
  await writeFile(path.join(place, "good.cts"), `
import recovery = require("weir-pusher-js-recovery");
recovery.installRecovery(class {}, {});
`);
  const compilerOptions = { noEmit: true, strict: true, skipLibCheck: true, module: "preserve", target: "es2022", lib: ["es2022", "dom"], types: [] };
  await writeFile(path.join(place, "tsconfig.json"), JSON.stringify({ compilerOptions }));
  const tsc = path.join(MODULES, "typescript/bin/tsc");
  const { stdout } = await execute("node", [tsc], { cwd: place }).catch((error) => error);
  assert.equal(stdout, "");
});

test("the example prints each event once, also those that it missed", async (context) => {
  const place = await folder(context);
  await cp(path.join(ROOT, "examples/pusher-js-recovery"), place, { recursive: true });
  await symlink(MODULES, path.join(place, "node_modules"));
  const weir = await Weir.start(context, { apps: [app()] });
  const [name, backend] = [unique("orders"), server(weir)];
  const url = `ws://${weir.host}:${weir.port}/app/${weir.apps[0].key}`;
  const watch = spawn("node", ["watch.mjs", url, name], { cwd: place, stdio: ["pipe", "pipe", "inherit"] });
  context.after(() => watch.kill("SIGKILL"));
  const lines = readline.createInterface({ input: watch.stdout })[Symbol.asyncIterator]();
  const line = async () => (await within(lines.next(), "a line of the example")).value;
  assert.equal(await line(), `subscribed to ${name}; Enter cuts the connection or connects again`);
  await backend.trigger(name, "changed", { order: 1 });
  assert.equal(await line(), 'changed {"order":1}');
  watch.stdin.write("\n");
  assert.equal(await line(), "disconnected");
  await backend.trigger(name, "changed", { order: 2 });
  await backend.trigger(name, "changed", { order: 3 });
  watch.stdin.write("\n");
  assert.equal(await line(), "2 missed events follow");
  assert.equal(await line(), 'changed {"order":2}');
  assert.equal(await line(), 'changed {"order":3}');
});
