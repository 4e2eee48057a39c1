/** How figures read in charts: as on the server's pages, shorter on an axis. */

const counts = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

export type Unit = "rate" | "count" | "duration" | "bytes";

export function formatCount(value: number): string {
  return counts.format(value);
}

/** A value beside the name of its series. */
export function formatValue(value: number | null | undefined, unit: Unit): string {
  if (value === null || value === undefined) return "–";
  if (unit === "duration") return formatDuration(value);
  if (unit === "bytes") return formatBytes(value);
  if (unit === "rate") return `${value < 10 ? round(value, 1) : short.format(value)}/s`;
  return value < 10_000 ? formatCount(value) : short.format(value);
}

/** A value on an axis. */
export function formatAxis(value: number, unit: Unit): string {
  if (unit === "duration") return formatDuration(value);
  if (unit === "bytes") return formatBytes(value);
  return value !== 0 && Math.abs(value) < 1 ? round(value, 2) : short.format(value);
}

export function formatDuration(seconds: number): string {
  if (seconds === 0) return "0 s";
  if (seconds < 1) return `${round(seconds * 1000, seconds < 0.01 ? 1 : 0)} ms`;
  if (seconds < 90) return `${round(seconds, 1)} s`;
  if (seconds < 5400) return `${round(seconds / 60, 1)} min`;
  if (seconds < 129_600) return `${round(seconds / 3600, 1)} h`;
  return `${round(seconds / 86_400, 1)} d`;
}

export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const at = bytes < 1 ? 0 : Math.min(Math.floor(Math.log2(bytes) / 10), units.length - 1);
  const value = bytes / 1024 ** at;
  return `${round(value, value < 10 ? 1 : 0)} ${units[at]}`;
}

function round(value: number, digits: number): string {
  return String(Number(value.toFixed(digits)));
}
