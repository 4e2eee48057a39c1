/** The live events of a channel: `<section data-tail="/channel/tail?..">`. Bounded, and it can be paused. */

/** What the server sends a few times a second: texts are fit to be read. */
interface Stretch {
  /** Events before these that arrived too fast. */
  left_out: number;
  events: Seen[];
}

interface Seen {
  time: string;
  moment: string;
  event: string;
  data: string;
  user: string;
  offset: number | null;
  size: string;
}

/** Rows on the page, and events that a pause holds back. */
const ROWS_MAX = 200;
/** A stream that was refused or broke is tried again after this long. */
const RETRY_MS = 5_000;

export function setUpTail(): void {
  const section = document.querySelector<HTMLElement>("[data-tail]");
  if (section) new Tail(section).open();
}

class Tail {
  private readonly list: HTMLElement;
  private readonly state: HTMLElement;
  private readonly pause: HTMLButtonElement;
  private source: EventSource | undefined;
  private retry: number | undefined;
  private isPaused = false;
  private held: Stretch = { left_out: 0, events: [] };
  private seen = 0;

  constructor(private readonly section: HTMLElement) {
    this.list = section.querySelector<HTMLElement>("[data-tail-events]")!;
    this.state = section.querySelector<HTMLElement>("[data-tail-state]")!;
    this.pause = section.querySelector<HTMLButtonElement>("[data-tail-pause]")!;
    this.pause.addEventListener("click", () => this.turn());
    section.querySelector("[data-tail-clear]")?.addEventListener("click", () => this.list.replaceChildren());
    // Browsers allow six connections to one host: hidden tabs must not use them up.
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.open()));
    window.addEventListener("pagehide", () => this.close());
    window.addEventListener("pageshow", (event) => {
      if (event.persisted) this.open();
    });
    section.hidden = false;
  }

  open(): void {
    this.close();
    if (document.hidden) return;
    this.source = new EventSource(this.section.dataset["tail"] ?? "");
    this.source.addEventListener("open", () => this.tell());
    this.source.addEventListener("seen", (event) => {
      const stretch = JSON.parse((event as MessageEvent<string>).data) as Stretch;
      if (this.isPaused) this.hold(stretch);
      else this.show(stretch);
      this.tell();
    });
    this.source.addEventListener("error", () => {
      this.state.textContent = "reconnecting…";
      // A stream that the server refused isn't tried again by the browser.
      if (this.source?.readyState === EventSource.CLOSED) this.retry = window.setTimeout(() => this.open(), RETRY_MS);
    });
  }

  private close(): void {
    window.clearTimeout(this.retry);
    this.source?.close();
    this.source = undefined;
  }

  private turn(): void {
    this.isPaused = !this.isPaused;
    this.pause.setAttribute("aria-pressed", String(this.isPaused));
    this.pause.textContent = this.isPaused ? "Resume" : "Pause";
    if (!this.isPaused) {
      this.show(this.held);
      this.held = { left_out: 0, events: [] };
    }
    this.tell();
  }

  /** The newest wait until the pause is over; what is too much is counted as left out. */
  private hold(stretch: Stretch): void {
    const events = [...this.held.events, ...stretch.events];
    const over = Math.max(0, events.length - ROWS_MAX);
    this.held = { left_out: this.held.left_out + stretch.left_out + over, events: events.slice(over) };
  }

  private show(stretch: Stretch): void {
    if (stretch.left_out > 0) this.list.prepend(leftOut(stretch.left_out));
    for (const seen of stretch.events) this.list.prepend(row(seen));
    this.seen += stretch.events.length;
    while (this.list.childElementCount > ROWS_MAX) this.list.lastElementChild?.remove();
  }

  private tell(): void {
    const held = this.held.events.length;
    const text = this.isPaused ? `paused${held ? `, ${held} held back` : ""}` : this.seen ? "" : "waiting for events";
    if (this.state.textContent !== text) this.state.textContent = text;
  }
}

function leftOut(count: number): HTMLElement {
  const item = document.createElement("li");
  item.className = "left-out";
  item.textContent = `${count} ${count === 1 ? "event" : "events"} left out: they arrived too fast`;
  return item;
}

/** Texts only: nothing that was published becomes part of the page. */
function row(seen: Seen): HTMLElement {
  const item = document.createElement("li");
  const time = element("time", seen.time);
  time.title = `${seen.moment} UTC`;
  const name = element("strong", seen.event);
  if (seen.user) name.append(" ", element("span", seen.user, "muted"));
  item.append(time, name, element("code", seen.data), element("span", seen.offset === null ? seen.size : `${seen.offset} · ${seen.size}`, "muted"));
  return item;
}

function element(tag: string, text: string, className = ""): HTMLElement {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}
