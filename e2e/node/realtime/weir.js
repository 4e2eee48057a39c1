// A Weir of a test's own: with realtime, on free ports, stopped and started as the test likes.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, statSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import readline from "node:readline";

const ROOT = path.resolve(import.meta.dirname, "../../..");

/** The app that most tests use. `settings` are lines of its own. */
export const app = (id = "e2e", settings = 'client_events = true\nsubscription_counts = true') => ({
  id,
  key: `${id}-key`,
  secret: `the secret of ${id}`,
  settings,
});

/** WEIR_BIN, or the newest that was built. */
function program() {
  if (process.env.WEIR_BIN) return process.env.WEIR_BIN;
  const built = ["release", "debug"].map((profile) => path.join(ROOT, "target", profile, "weir"));
  const found = built.filter(existsSync).sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs);
  assert.ok(found.length, "no Weir to test: `cargo build -p weir`, or set WEIR_BIN");
  return found[0];
}

export class Weir {
  /** Starts one; stopped, and its data removed, when the test or the file ends. */
  static async start(context, { apps = [app()], settings = "" } = {}) {
    const folder = await mkdtemp(path.join(tmpdir(), "weir-e2e-"));
    const weir = new Weir(folder, apps, settings);
    context.after(() => weir.#remove());
    await weir.start();
    return weir;
  }

  constructor(folder, apps, settings) {
    Object.assign(this, { folder, apps, settings });
  }

  /** Starts it, after stop() with the data of before; the port is another one then. */
  start() {
    this.ready = this.#start();
    return this.ready;
  }

  async #start() {
    await writeFile(this.#file, this.#toml());
    this.process = spawn(program(), ["up", "--only", "realtime", "--log-level", "error", "--config", this.#file], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, ...Object.fromEntries(this.apps.map((app) => [secretName(app), app.secret])) },
    });
    this.exited = once(this.process, "exit");
    const lines = readline.createInterface({ input: this.process.stdout });
    for await (const line of lines) {
      const address = /^weir ready .*\bfront=(\S+):(\d+)/.exec(line);
      if (!address) continue;
      [this.host, this.port] = [address[1], Number(address[2])];
      // What it says from now on is read, so that it can say it.
      this.process.stdout.resume();
      return;
    }
    throw new Error("Weir ended before it was ready");
  }

  /** SIGTERM, and waits for the end. */
  async stop() {
    this.process.kill("SIGTERM");
    const [code] = await this.exited;
    assert.equal(code, 0, "Weir's exit code after SIGTERM");
  }

  /** SIGTERM, and another one with the same data. */
  restart() {
    this.ready = this.stop().then(() => this.#start());
    return this.ready;
  }

  /** Takes over changed settings: `apps` and `settings` may have been replaced. */
  async reload() {
    await writeFile(this.#file, this.#toml());
    this.process.kill("SIGHUP");
  }

  /** Kills the service process; the parent starts another one. */
  async killService() {
    const children = `/proc/${this.process.pid}/task/${this.process.pid}/children`;
    const [service] = (await readFile(children, "utf8")).trim().split(" ");
    process.kill(Number(service), "SIGKILL");
  }

  /** Where `http://` requests go. */
  get origin() {
    return `http://${this.host}:${this.port}`;
  }

  get #file() {
    return path.join(this.folder, "weir.toml");
  }

  #toml() {
    // Jobs are no part of these tests; a store on disk would be read anew after each kill.
    const parts = ['data_dir = "data"', '[jobs]\nstore = "memory"', '[front]\nlisten = "127.0.0.1:0"\ncores = 2'];
    const apps = this.apps.map((app) =>
      ["[[realtime.apps]]", `id = "${app.id}"`, `key = "${app.key}"`, `secret = { env = "${secretName(app)}" }`, app.settings]);
    return [...parts, this.settings, ...apps.flat()].join("\n") + "\n";
  }

  async #remove() {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      this.process.kill("SIGKILL");
      await this.exited;
    }
    await rm(this.folder, { recursive: true, force: true });
  }
}

const secretName = ({ id }) => `WEIR_E2E_SECRET_${id}`;
