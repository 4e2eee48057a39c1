/** Live charts over the server's history, drawn by uPlot. */
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { formatAxis, formatValue, type Unit } from "./figures";
import type { Tick } from "./stream";

interface ChartAnswer {
  times: number[];
  means: (number | null)[][];
  peaks: (number | null)[][];
}

interface Series {
  key: string;
  name: string;
}

/** Points of one chart, unless it says otherwise; each is drawn over at least a pixel. */
const POINTS_MAX = 600;
/** Where a chart's points come from, unless it says otherwise. */
const SOURCE = "/chart";
const HEIGHT_PX = 190;
const TIME_AXIS_PX = 26;
const VALUE_AXIS_PX = 56;
/** Colours of lines (--series-1 ..); beyond them they come again, dashed. */
const COLOURS = 8;
const DASH_PX = [6, 3];
/** Long charts are read again when one point's time has passed, at most this often. */
const REFRESH_MS_MIN = 10_000;

/** Draws all charts of the page; the result takes each tick of the live stream. */
export function setUpCharts(): (tick: Tick) => void {
  const figures = [...document.querySelectorAll<HTMLElement>("[data-chart]")];
  const charts = figures.map((figure) => new Chart(figure));
  // A change of theme changes the colours, which the canvas holds.
  new MutationObserver(() => charts.forEach((chart) => chart.redraw())).observe(
    document.documentElement,
    { attributes: true, attributeFilter: ["data-theme"] },
  );
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    charts.forEach((chart) => chart.redraw()),
  );
  return (tick) => charts.forEach((chart) => chart.add(tick));
}

class Chart {
  private readonly series: Series[];
  private readonly seconds: number;
  private readonly points: number;
  private readonly source: string;
  private readonly unit: Unit;
  private readonly values: HTMLElement[] = [];
  private readonly box = document.createElement("div");
  private data: (number | null)[][] = [];
  private plot: uPlot | undefined;
  private readAt = 0;

  constructor(private readonly figure: HTMLElement) {
    this.series = (figure.dataset["chart"] ?? "").split(",").map((part) => {
      const [key = "", name = ""] = part.split(":");
      return { key, name };
    });
    this.seconds = Number(figure.dataset["seconds"]);
    this.points = Number(figure.dataset["points"] ?? POINTS_MAX);
    this.source = figure.dataset["source"] ?? SOURCE;
    this.unit = (figure.dataset["unit"] ?? "count") as Unit;
    this.box.setAttribute("role", "img");
    this.box.setAttribute("aria-label", `Chart: ${figure.dataset["name"] ?? ""} over time`);
    this.addLegend();
    figure.append(this.box);
    new ResizeObserver(() => this.resize()).observe(figure);
    void this.read();
  }

  /** Adds the newest point, or reads a long chart again. */
  add(tick: Tick): void {
    const step = this.seconds / this.points;
    const times = this.data[0];
    if (!times) return;
    // The stream tells of the whole server only.
    if (step > 2 || this.source !== SOURCE) {
      if (Date.now() - this.readAt > Math.max(REFRESH_MS_MIN, step * 1000)) void this.read();
    } else {
      times.push(Math.floor(tick.now));
      this.series.forEach((series, index) => {
        const value = tick[series.key as keyof Tick];
        this.data[index + 1]?.push(typeof value === "number" ? value : null);
      });
      const oldest = tick.now - this.seconds;
      while ((times[0] ?? Infinity) < oldest) this.data.forEach((column) => column.shift());
      this.plot?.setData(this.data as uPlot.AlignedData);
    }
    this.showValues(undefined);
  }

  /** Draws anew in the present colours. */
  redraw(): void {
    this.plot?.destroy();
    this.plot = undefined;
    this.draw();
  }

  private async read(): Promise<void> {
    this.readAt = Date.now();
    const keys = this.series.map((series) => series.key).join(",");
    const join = this.source.includes("?") ? "&" : "?";
    const address = `${this.source}${join}series=${keys}&seconds=${this.seconds}&points=${this.points}`;
    try {
      const response = await fetch(address);
      if (!response.ok) return;
      const answer = (await response.json()) as ChartAnswer;
      // The longest wait is shown by its peaks: a mean would hide them.
      this.data = [answer.times, ...(this.unit === "duration" ? answer.peaks : answer.means)];
      this.draw();
    } catch {
      // The stream says that the server is gone; the next tick reads again.
    }
  }

  private draw(): void {
    if (!this.data.length) return;
    if (this.plot) this.plot.setData(this.data as uPlot.AlignedData);
    else this.plot = new uPlot(this.options(), this.data as uPlot.AlignedData, this.box);
    this.box.dataset["points"] = String(this.data[0]?.length ?? 0);
    this.showValues(undefined);
  }

  private options(): uPlot.Options {
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const lines = this.series.map((series, index): uPlot.Series => {
      const stroke = colour(`--series-${(index % COLOURS) + 1}`);
      const fill = this.series.length === 1 || index === 0 ? `${stroke}1c` : undefined;
      const dash = index >= COLOURS ? DASH_PX : undefined;
      return { label: series.name, stroke, width: 1.5, points: { show: false }, ...(fill && { fill }), ...(dash && { dash }) };
    });
    return {
      width: this.width(),
      height: HEIGHT_PX,
      legend: { show: false },
      padding: [6, 14, 0, 0],
      cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
      scales: {
        x: { range: () => this.stretch() },
        y: { range: (_plot, _min, max) => [0, max > 0 ? max * 1.08 : 1] },
      },
      axes: [
        { ...axis, size: TIME_AXIS_PX, space: 70, values: [
          [86_400, "{MM}-{DD}", null, null, null, null, null, null, 0],
          [3_600, "{HH}:{mm}", null, null, null, null, null, null, 0],
          [1, "{HH}:{mm}", null, null, null, null, null, null, 0],
        ] },
        { ...axis, size: VALUE_AXIS_PX, space: 36, values: (_plot, ticks) => ticks.map((tick) => formatAxis(tick, this.unit)) },
      ],
      series: [{}, ...lines],
      hooks: { setCursor: [(plot) => this.showValues(plot.cursor.idx)] },
    };
  }

  /** The chart always shows its whole stretch, so that a young history isn't stretched. */
  private stretch(): [number, number] {
    const times = this.data[0] ?? [];
    const end = times[times.length - 1] ?? Date.now() / 1000;
    return [end - this.seconds, end];
  }

  private addLegend(): void {
    const caption = this.figure.querySelector("figcaption");
    if (!caption) return;
    const legend = document.createElement("span");
    legend.className = "legend";
    this.series.forEach((series, index) => {
      const item = document.createElement("span");
      const mark = document.createElement("i");
      mark.className = `series-${(index % COLOURS) + 1}${index >= COLOURS ? " dashed" : ""}`;
      const value = document.createElement("b");
      item.append(mark, `${series.name} `, value);
      this.values.push(value);
      legend.append(item);
    });
    caption.append(legend);
  }

  /** Values under the cursor, otherwise the newest. */
  private showValues(index: number | null | undefined): void {
    this.values.forEach((element, at) => {
      const column = this.data[at + 1] ?? [];
      const chosen = index ?? this.plot?.cursor.idx;
      const value = chosen === null || chosen === undefined ? newest(column) : column[chosen];
      element.textContent = formatValue(value, this.unit);
    });
  }

  private width(): number {
    const style = getComputedStyle(this.figure);
    const padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
    return Math.max(200, Math.floor(this.figure.clientWidth - padding));
  }

  private resize(): void {
    const width = this.width();
    if (this.plot && this.plot.width !== width) this.plot.setSize({ width, height: HEIGHT_PX });
  }
}

function newest(column: (number | null)[]): number | null {
  for (let index = column.length - 1; index >= 0; index--) {
    const value = column[index];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}
