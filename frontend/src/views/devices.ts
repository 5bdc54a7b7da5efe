// The devices view: a row a device over time, kernels above and collectives below, and how each row's time is shared.
import { button, colour, make, plural, register, table, type Context, type NDArray } from "../core";
import style from "./devices.css";

interface Track { start: NDArray; end: NDArray; lane: NDArray; name: NDArray; sent: NDArray; busy: NDArray }
interface Row { name: string; devices: number; track: number; compute: number; communication: number; exposed: number; idle: number; sent: number }
interface Payload { title: string; text: string; clock: string; seconds: number; shares: [string, number][]; rows: Row[]; tracks: Track[]; names: string[]; notes: string[]; condensed: boolean }

const COMPUTE = "#0072b2", COMMUNICATION = "#d55e00", LABELS = 200, AXIS = 20, HIGH = 26, BAR = 74;

const time = (seconds: number): string => {
  for (const [unit, size] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]] as [string, number][]) if (seconds >= size) return `${Number((seconds / size).toPrecision(3)).toLocaleString("en")} ${unit}`;
  return seconds ? `${Number((seconds / 1e-9).toPrecision(3))} ns` : "0 µs";
};
const bytes = (count: number): string => {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) (count /= 1024), unit++;
  return `${count.toLocaleString("en", { maximumFractionDigits: 1 })} ${units[unit]}`;
};

class Devices {
  private readonly canvas = make("canvas", { tabindex: 0, role: "application" });
  private readonly status = make("div", { class: "tsr-foot", role: "status", "aria-live": "polite" });
  private from = 0;
  private to: number;
  private row = 0;
  private at = -1;
  private readonly watch: ResizeObserver;

  constructor(private readonly root: HTMLElement, private readonly data: Payload) {
    this.to = data.seconds || 1;
    const { canvas } = this;
    canvas.setAttribute("aria-label", `${data.title}: ${plural(data.rows.length, "row")} over ${time(data.seconds)} of ${data.clock} time; arrows move, plus and minus zoom; the table below has the figures`);
    canvas.addEventListener("keydown", (event) => this.keys(event));
    canvas.addEventListener("click", (event) => this.pick(event));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== canvas) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 0.8 : 1.25, this.seconds(event.offsetX));
    }, { passive: false });
    const key = (name: string, fill: string): HTMLElement => make("span", { class: "tsr-devices-key" }, make("i", { style: `background:${fill}` }), name);
    const shares = data.shares.map(([name, share]) => `${name === "communication" ? "exposed communication" : name} ${(100 * share).toFixed(1)} %`).join(", ");
    const rows = data.rows.map((each) => [each.name, time(each.compute), time(each.communication), time(each.exposed), time(each.idle), bytes(each.sent)]);
    root.append(
      make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, data.title), make("span", { class: "tsr-pill" }, `${time(data.seconds)}, ${data.clock} time`),
        make("span", { class: "tsr-grow" }), key("compute", COMPUTE), key("communication", COMMUNICATION), key("idle", "var(--bar)"),
        button("fit", "show all of the time", () => this.fit())),
      make("div", { class: "tsr-devices-scroll", tabindex: -1 }, make("div", { class: "tsr-devices-chart" }, canvas)),
      this.status,
      make("details", {}, make("summary", {}, "as a table"), make("div", { class: "tsr-scroll", tabindex: 0 }, table(["", "compute", "communication", "of it exposed", "idle", "sent by each"], rows, [1, 2, 3, 4, 5])),
        make("ul", {}, ...data.notes.map((note) => make("li", { class: "tsr-soft" }, note)))));
    this.summary = `${shares}${data.condensed ? "; what is too short to be seen is drawn together" : ""}`;
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(canvas.parentElement!);
    this.tell();
    this.draw();
  }

  private readonly summary: string;

  destroy(): void {
    this.watch.disconnect();
  }

  themed(): void {
    this.draw();
  }

  private get width(): number {
    return Math.max(320, this.canvas.parentElement!.clientWidth - 20);
  }

  private get plot(): number {
    return this.width - LABELS - BAR;
  }

  private x(seconds: number): number {
    return LABELS + ((seconds - this.from) / (this.to - this.from)) * this.plot;
  }

  private seconds(x: number): number {
    return this.from + ((x - LABELS) / this.plot) * (this.to - this.from);
  }

  private draw(): void {
    const { data, canvas } = this, ratio = globalThis.devicePixelRatio || 1, high = data.rows.length * HIGH + AXIS;
    [canvas.width, canvas.height] = [this.width * ratio, high * ratio];
    canvas.style.height = `${high}px`;
    const pen = canvas.getContext("2d")!;
    pen.scale(ratio, ratio);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    this.axis(pen, high);
    for (const [number, row] of data.rows.entries()) this.paint(pen, row, number);
  }

  private axis(pen: CanvasRenderingContext2D, high: number): void {
    const span = this.to - this.from, rough = span / Math.max(2, this.plot / 90), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough)!;
    pen.fillStyle = colour(this.root, "--soft");
    pen.strokeStyle = colour(this.root, "--edge");
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
      const x = this.x(at);
      pen.beginPath();
      pen.moveTo(x, AXIS - 3);
      pen.lineTo(x, high);
      pen.stroke();
      if (x < LABELS + this.plot - 30) pen.fillText(time(at), x + 3, AXIS / 2);
    }
    pen.fillText("share", LABELS + this.plot + 10, AXIS / 2);
  }

  private paint(pen: CanvasRenderingContext2D, row: Row, number: number): void {
    const top = AXIS + number * HIGH, track = this.data.tracks[row.track], chosen = number === this.row;
    pen.fillStyle = colour(this.root, chosen ? "--ink" : "--soft");
    pen.save();
    pen.beginPath();
    pen.rect(0, top, LABELS - 8, HIGH);
    pen.clip();
    pen.fillText(row.name, 2, top + HIGH / 2);
    pen.restore();
    pen.fillStyle = colour(this.root, "--bar");
    pen.fillRect(LABELS, top + 2, this.plot, HIGH - 4);
    pen.save();
    pen.beginPath();
    pen.rect(LABELS, top, this.plot, HIGH);
    pen.clip();
    for (let i = 0; i < track.start.data.length; i++) {
      const [begin, end] = [this.x(track.start.data[i]), this.x(track.end.data[i])];
      if (end < LABELS || begin > LABELS + this.plot) continue;
      const computes = track.lane.data[i] === 0;
      const y = top + (computes ? 2 : 14 + Math.min(1, track.lane.data[i] - 1) * 5), h = computes ? 11 : track.lane.data[i] > 1 ? 4 : 9;
      // What is drawn together is as high as it is busy, over a pale ground.
      const wide = Math.max(0.75, end - begin - (end - begin > 4 ? 0.75 : 0)), full = (h * track.busy.data[i]) / 100;
      pen.fillStyle = computes ? COMPUTE : COMMUNICATION;
      if (full < h) {
        pen.globalAlpha = 0.2;
        pen.fillRect(begin, y, wide, h);
        pen.globalAlpha = 1;
      }
      pen.fillRect(begin, y + h - full, wide, full);
      if (computes && full === h && end - begin > 26) {
        pen.fillStyle = "#fff";
        const name = this.data.names[track.name.data[i]];
        if (pen.measureText(name).width < end - begin - 6) pen.fillText(name, begin + 3, y + 6);
      }
      if (chosen && i === this.at) {
        pen.strokeStyle = colour(this.root, "--mark");
        pen.lineWidth = 2;
        pen.strokeRect(begin - 1, y - 1, Math.max(3, end - begin) + 2, h + 2);
        pen.lineWidth = 1;
      }
    }
    pen.restore();
    this.bar(pen, row, top);
  }

  /** The shares of a row's whole time, whatever stretch of it is shown. */
  private bar(pen: CanvasRenderingContext2D, row: Row, top: number): void {
    let x = LABELS + this.plot + 10;
    const whole = this.data.seconds || 1, wide = BAR - 14;
    for (const [part, fill] of [[row.compute, COMPUTE], [row.exposed, COMMUNICATION], [row.idle, colour(this.root, "--bar")]] as [number, string][]) {
      pen.fillStyle = fill;
      pen.fillRect(x, top + 6, (wide * part) / whole, HIGH - 12);
      x += (wide * part) / whole;
    }
    pen.strokeStyle = colour(this.root, "--edge");
    pen.strokeRect(LABELS + this.plot + 10, top + 6, wide, HIGH - 12);
  }

  private pick(event: MouseEvent): void {
    const row = Math.floor((event.offsetY - AXIS) / HIGH);
    if (row < 0 || row >= this.data.rows.length) return;
    this.row = row;
    const track = this.data.tracks[this.data.rows[row].track], at = this.seconds(event.offsetX), upper = event.offsetY - AXIS - row * HIGH < HIGH / 2;
    const slack = ((this.to - this.from) / this.plot) * 2;
    const hits = [...track.start.data.keys()].filter((i) => track.start.data[i] - slack <= at && at <= track.end.data[i] + slack);
    this.at = hits.find((i) => (track.lane.data[i] === 0) === upper) ?? hits[0] ?? -1;
    this.tell();
    this.draw();
  }

  private keys(event: KeyboardEvent): void {
    const count = this.data.tracks[this.data.rows[this.row]?.track]?.start.data.length ?? 0, shift = (this.to - this.from) / 5;
    const acts: Record<string, () => void> = {
      ArrowUp: () => this.go(this.row - 1), ArrowDown: () => this.go(this.row + 1), Home: () => this.go(0), End: () => this.go(this.data.rows.length - 1),
      ArrowRight: () => this.step(Math.min(count - 1, this.at + 1)), ArrowLeft: () => this.step(Math.max(0, this.at - 1)),
      "+": () => this.zoom(0.6), "=": () => this.zoom(0.6), "-": () => this.zoom(1 / 0.6), "0": () => this.fit(),
      "[": () => this.pan(-shift), "]": () => this.pan(shift), Escape: () => this.step(-1),
    };
    const act = acts[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  private go(row: number): void {
    this.row = Math.max(0, Math.min(this.data.rows.length - 1, row));
    this.step(-1);
    const scroll = this.canvas.closest<HTMLElement>(".tsr-devices-scroll")!, top = AXIS + this.row * HIGH;
    scroll.scrollTop = Math.max(Math.min(scroll.scrollTop, top - AXIS), top + HIGH + 12 - scroll.clientHeight);
  }

  private step(at: number): void {
    this.at = at;
    const track = this.data.tracks[this.data.rows[this.row]?.track];
    if (at >= 0 && track) {
      const [begin, end] = [track.start.data[at], track.end.data[at]];
      if (begin < this.from || end > this.to) this.pan(begin < this.from ? begin - this.from : end - this.to);
    }
    this.tell();
    this.draw();
  }

  private zoom(factor: number, around?: number): void {
    const track = this.data.tracks[this.data.rows[this.row]?.track];
    const middle = around ?? (this.at >= 0 && track ? track.start.data[this.at] : (this.from + this.to) / 2);
    const whole = this.data.seconds || 1, span = Math.max(whole / 1e5, Math.min(whole, (this.to - this.from) * factor));
    const share = (middle - this.from) / (this.to - this.from);
    this.from = Math.max(0, Math.min(whole - span, middle - span * share));
    this.to = this.from + span;
    this.draw();
  }

  private pan(by: number): void {
    const span = this.to - this.from, whole = this.data.seconds || 1;
    this.from = Math.max(0, Math.min(whole - span, this.from + by));
    this.to = this.from + span;
    this.draw();
  }

  private fit(): void {
    [this.from, this.to] = [0, this.data.seconds || 1];
    this.draw();
  }

  private tell(): void {
    const row = this.data.rows[this.row], key = (name: string): HTMLElement => make("kbd", {}, name);
    const track = row && this.data.tracks[row.track];
    const span = track && this.at >= 0 ? `${this.data.names[track.name.data[this.at]]}: ${time(track.start.data[this.at])} to ${time(track.end.data[this.at])}, ${time(track.end.data[this.at] - track.start.data[this.at])}${track.sent.data[this.at] ? `, ${bytes(track.sent.data[this.at])} sent` : ""}` : "";
    const figures = row ? `compute ${time(row.compute)}, communication ${time(row.exposed)} exposed of ${time(row.communication)}, idle ${time(row.idle)}` : "";
    this.status.replaceChildren(make("b", {}, row ? `${row.name}: ${span || figures}` : "nothing ran"), make("span", {}, span ? "" : this.summary), make("span", { class: "tsr-grow" }),
      make("span", { class: "tsr-keys" }, key("↑"), key("↓"), " devices · ", key("←"), key("→"), " pieces · ", key("+"), key("−"), key("0"), " zoom · ", key("["), key("]"), " move"));
  }
}

register("devices", (root: HTMLElement, data: Payload, _context: Context) => new Devices(root, data), style);
