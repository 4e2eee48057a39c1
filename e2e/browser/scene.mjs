// A busy server to look at: some queues, failures, dead and scheduled jobs, a worker at work.
import { Faktory, job } from "./faktory.mjs";

const TYPES = ["DeliveryWorker", "LinkCrawlWorker", "ProcessingWorker", "MailDeliveryJob"];
const WORK_MS = 4;
const BEAT_MS = 5_000;

/** A dead job with a backtrace. */
export const FAILED_JID = `failed-${process.pid}`;

export class Scene {
  static async open(url) {
    const scene = new Scene();
    scene.producer = await Faktory.connect(url);
    scene.worker = await Faktory.connect(url, `worker-${process.pid}`);
    // A run that was cut off may have left queues paused.
    await scene.producer.command("QUEUE", "RESUME default push");
    await scene.fill();
    await scene.worker.beat();
    scene.beating = setInterval(() => (scene.isBeatDue = true), BEAT_MS);
    scene.running = scene.work();
    return scene;
  }

  isOpen = true;

  async fill() {
    const many = (count, type, queue, more) => Array.from({ length: count }, () => job(type, queue, more));
    await this.producer.push([job("ImportJob", "failing", { retry: -1, jid: FAILED_JID })]);
    await this.producer.push(many(60, "PushUpdate", "default", { retry: 5 }));
    await this.producer.push(many(400, "DeliveryWorker", "push"));
    await this.producer.push(many(12, "ReportJob", "mailers", { at: new Date(Date.now() + 3_600_000).toISOString() }));
    await this.producer.push(many(9, "ImportJob", "ingress", { retry: -1 }));
    await this.failing(1, "failing", "Errno::ENOSPC", "No space left on device");
    await this.failing(12, "default", "Net::OpenTimeout", "execution expired after 10 s while talking to mastodon.example:443");
    await this.failing(9, "ingress", "ActiveRecord::RecordInvalid", "Validation failed: Url is not valid");
  }

  async failing(count, queue, errtype, message) {
    for (let index = 0; index < count; index++) {
      const fetched = await this.worker.fetch(queue);
      if (!fetched) return;
      await this.worker.fail(fetched.jid, errtype, message, [
        "app/workers/delivery_worker.rb:42:in `perform'",
        "lib/http/client.rb:118:in `connect'",
      ]);
    }
  }

  /** Pushes and works until the scene is closed, always with something in hand. */
  async work() {
    const held = [];
    while (this.isOpen) {
      const type = TYPES[Math.floor(Math.random() * TYPES.length)];
      await this.producer.push([job(type, "push"), job(type, "default")]);
      const fetched = await this.worker.fetch("default", "push");
      if (fetched) held.push(fetched.jid);
      if (held.length > 4) {
        const jid = held.shift();
        if (Math.random() < 0.04) await this.worker.fail(jid, "Redis::TimeoutError", "Connection timed out");
        else await this.worker.ack(jid);
      }
      if (this.isBeatDue) {
        this.isBeatDue = false;
        await this.worker.beat();
      }
      await new Promise((resolve) => setTimeout(resolve, WORK_MS));
    }
    for (const jid of held) await this.worker.ack(jid);
  }

  async close() {
    this.isOpen = false;
    clearInterval(this.beating);
    await this.running;
    this.producer.close();
    this.worker.close();
  }
}
