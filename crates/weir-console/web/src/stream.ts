/** The live stream: one connection per visible tab, closed while nobody looks. */
import { formatCount } from "./figures";

/** What the server sends every second. Rates are per second, times in seconds. */
export interface Tick {
  now: number;
  /** Of jobs, where they are served. */
  pushed_per_second?: number;
  processed_per_second?: number;
  failed_per_second?: number;
  enqueued?: number;
  working?: number;
  scheduled?: number;
  retries?: number;
  dead?: number;
  queues?: number;
  workers?: number;
  latency_seconds_max?: number;
  /** Of realtime, where it is served. */
  connections?: number;
  /** Requests that wait for a worker, where apps are served. */
  front_waiting?: number;
  doctor_findings?: number;
  verdict: { class: string; word: string; headline: string; criticals: number };
}

/** Streams that were refused or broke are tried again after this long. */
const RETRY_MS = 5_000;

export function openStream(onTick: (tick: Tick) => void): void {
  const title = document.title;
  let source: EventSource | undefined;
  let retry: number | undefined;

  const open = () => {
    close();
    source = new EventSource("/events");
    source.addEventListener("tick", (event) => {
      const tick = JSON.parse((event as MessageEvent<string>).data) as Tick;
      showPulse("Live", false);
      showCounts(tick);
      showVerdict(tick);
      const mark = tick.verdict.class === "critical" ? "● " : "";
      document.title = `${mark}${title}`;
      onTick(tick);
    });
    source.addEventListener("down", () => showPulse("Job server does not respond", true));
    source.addEventListener("error", () => {
      showPulse("Reconnecting…", true);
      // A stream that the server refused isn't tried again by the browser.
      if (source?.readyState === EventSource.CLOSED) retry = window.setTimeout(open, RETRY_MS);
    });
  };
  const close = () => {
    window.clearTimeout(retry);
    source?.close();
    source = undefined;
  };

  // Browsers allow six connections to one host: hidden tabs must not use them up.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) open();
  });
  if (!document.hidden) open();
}

function showPulse(text: string, isDown: boolean): void {
  const pulse = document.getElementById("pulse");
  if (!pulse || (pulse.textContent === text && !pulse.hidden)) return;
  pulse.hidden = false;
  pulse.textContent = text;
  pulse.classList.toggle("down", isDown);
}

/** The verdict above every page; a screen reader hears it when it becomes another one. */
function showVerdict({ verdict }: Tick): void {
  const alarm = document.getElementById("alarm");
  if (!alarm) return;
  const isWrong = verdict.class === "warning" || verdict.class === "critical";
  alarm.hidden = !isWrong;
  alarm.className = `alarm ${verdict.class}`;
  alarm.title = verdict.headline;
  if (alarm.textContent !== verdict.word) alarm.textContent = verdict.word;
  announce(`${verdict.word}: ${verdict.headline}`);
}

let announced: string | undefined;

/** Figures change every second: what differs in nothing else is not said again. */
function announce(text: string): void {
  const gist = text.replace(/[\d.,]+( (ms|s|min|h|d))?/g, "#").replace(/(# )+#/g, "#");
  const isNew = announced !== undefined && announced !== gist;
  announced = gist;
  const announcement = document.getElementById("announcement");
  if (isNew && announcement) announcement.textContent = text;
}

function showCounts(tick: Tick): void {
  for (const element of document.querySelectorAll<HTMLElement>("[data-live]")) {
    const value = tick[element.dataset["live"] as keyof Tick];
    if (typeof value === "number") element.textContent = formatCount(value);
  }
}
