// A canvas of lanes: units as rows, tiles over time, measured above and predicted below, on one axis.
import { beside, colour, make, PALETTE, type Context, type Selection } from "../core";
import { after, bin, clear, empty, type Bins } from "./bins";
import { Strips } from "./strips";
import { element, time, where, type Columns, type Launch } from "./types";

const [GUTTER, AXIS, LEFT_FOR_PHASES] = [84, 34, 26];
const PHASES: Record<string, string> = { load: PALETTE[1], compute: PALETTE[2], store: PALETTE[3] };
const BLUES = ["#3f9fd8", "#7cc0ea"];
const STEPS = [1, 2, 5];

interface Lane { from: number; to: number }
interface Hit { columns: Columns; index: number; predicted: boolean }

/** Where each lane of each row lies in the columns, which are sorted by row, lane and start. */
function lanesOf(columns: Columns, rows: number, lanes: number): Lane[][] {
  const found: Lane[][] = Array.from({ length: rows }, () => Array.from({ length: lanes }, () => ({ from: 0, to: 0 })));
  const [row, lane] = [columns.row.data, columns.lane.data];
  for (let i = 0; i < row.length; ) {
    let j = i + 1;
    while (j < row.length && row[j] === row[i] && lane[j] === lane[i]) j++;
    found[row[i]][lane[i]] = { from: i, to: j };
    i = j;
  }
  return found;
}

export class Lanes {
  readonly canvas = make("canvas", { tabindex: 0, role: "img", class: "tsr-lanes" });
  readonly tip = make("div", { class: "tsr-tip", hidden: true });
  showPredicted: boolean;
  private first = 0;
  private last = 1;
  private readonly full: number;
  private readonly measured: Lane[][];
  private readonly predicted: Lane[][];
  private readonly byGroup = new Map<number, number>();
  private cursor: Hit | null = null;
  private chosen = new Set<number>();
  private range: [number, number] | null = null;
  private pending = 0;
  private bins: Bins = empty(0);
  private readonly strips = new Strips();
  private readonly sized: ResizeObserver;
  private drag: { x: number; first: number; last: number; ranging: boolean; moved: boolean } | null = null;

  constructor(private readonly root: HTMLElement, readonly launch: Launch, private readonly context: Context, private readonly say: (text: string) => void) {
    this.full = Math.max(launch.span, launch.predicted_span, 1);
    this.last = this.full * 1.02;
    this.showPredicted = launch.predicted !== null;
    this.measured = launch.measured ? lanesOf(launch.measured, launch.rows.length, launch.lanes) : [];
    this.predicted = launch.predicted ? lanesOf(launch.predicted, launch.rows.length, launch.lanes) : [];
    const main = launch.measured ?? launch.predicted;
    main?.group.data.forEach((group, index) => this.byGroup.set(group, index));
    const count = main ? main.group.data.length.toLocaleString("en") : "no";
    this.canvas.setAttribute("aria-label", `timeline of ${count} tiles on ${launch.rows.length} rows; plus and minus zoom, arrows move, 0 fits, n and p step through tiles, s selects the time shown; the table below says the same`);
    const on = <K extends keyof HTMLElementEventMap>(name: K, heard: (event: HTMLElementEventMap[K]) => void) => this.canvas.addEventListener(name, heard, { passive: false });
    on("keydown", (event) => this.key(event));
    on("wheel", (event) => this.wheel(event));
    on("pointerdown", (event) => this.press(event));
    on("pointermove", (event) => this.move(event));
    on("pointerup", (event) => this.release(event));
    on("pointerleave", () => (this.tip.hidden = true));
    this.sized = new ResizeObserver(() => this.redraw());
    this.sized.observe(this.canvas);
  }

  destroy(): void {
    this.sized.disconnect();
    cancelAnimationFrame(this.pending);
  }

  redraw(): void {
    cancelAnimationFrame(this.pending);
    this.pending = requestAnimationFrame(() => this.draw());
  }

  fit(): void {
    [this.first, this.last] = [0, this.full * 1.02];
    this.redraw();
  }

  /** Zoom around a time, or the middle. */
  zoom(factor: number, around = (this.first + this.last) / 2): void {
    const span = Math.min(this.full * 1.02, Math.max(1, (this.last - this.first) * factor));
    const share = (around - this.first) / (this.last - this.first);
    this.look(around - share * span, span);
  }

  /** Mark what another view selected; returns what there is of it, in words. */
  mark(selection: Selection | null): string {
    this.chosen = new Set((selection?.tiles ?? []).filter((tile) => this.byGroup.has(tile)));
    this.range = selection?.time ?? null;
    this.redraw();
    if (!selection) return "";
    if (this.chosen.size) {
      const [tile] = this.chosen;
      this.cursor = this.hit(this.byGroup.get(tile)!);
      return this.chosen.size === 1 ? this.told(this.cursor) : `${this.chosen.size.toLocaleString("en")} tiles`;
    }
    if (this.range) return `${time(this.range[0])} to ${time(this.range[1])}`;
    if (selection.lines?.some((line) => this.launch.lines.includes(line))) return `${selection.label ?? "this line"}: every tile runs it`;
    return "no counterpart on the timeline";
  }

  private get rowHeight(): number {
    return Math.max(7, Math.min(30, Math.floor(420 / Math.max(1, this.launch.rows.length))));
  }
  private get width(): number {
    return Math.max(50, this.canvas.clientWidth - GUTTER - 8);
  }
  private x(at: number): number {
    return GUTTER + ((at - this.first) / (this.last - this.first)) * this.width;
  }
  private at(x: number): number {
    return this.first + ((x - GUTTER) / this.width) * (this.last - this.first);
  }
  private look(first: number, span: number): void {
    this.tip.hidden = true;
    const end = this.full * 1.02;
    this.first = Math.max(-0.02 * span, Math.min(end - span, first));
    this.last = this.first + span;
    this.redraw();
  }

  /** The heights of the measured and the predicted band of a row. */
  private bands(): [number, number] {
    const inside = this.rowHeight - 2;
    if (!this.launch.measured) return [0, inside];
    if (!this.launch.predicted || !this.showPredicted) return [inside, 0];
    const below = Math.max(2, Math.round(inside * 0.36));
    return [inside - below, below];
  }

  private draw(): void {
    const begun = performance.now();
    const { canvas, launch } = this;
    const height = AXIS + launch.rows.length * this.rowHeight + 4;
    const ratio = devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    const width = canvas.clientWidth;
    if (!width) return;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const g = canvas.getContext("2d")!;
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    const ink = { ink: colour(this.root, "--ink"), soft: colour(this.root, "--soft"), edge: colour(this.root, "--edge"), mark: colour(this.root, "--mark"), accent: colour(this.root, "--accent"), minus: colour(this.root, "--minus") };
    this.axis(g, ink, width, height);
    const [above, below] = this.bands();
    let drawn = 0;
    g.save();
    g.beginPath();
    g.rect(GUTTER, 0, this.width + 2, height);
    g.clip();
    const top = (row: number): number => AXIS + row * this.rowHeight + 1;
    if (launch.measured && above) {
      for (let row = 0; row < launch.rows.length; row++) drawn += this.band(g, launch.measured, this.measured[row], top(row), above, null);
      this.strips.draw(g, GUTTER, BLUES[0]);
    }
    if (launch.predicted && below && this.showPredicted) {
      const outline = launch.measured ? ink.soft : null;
      for (let row = 0; row < launch.rows.length; row++) drawn += this.band(g, launch.predicted, this.predicted[row], top(row) + above, below, outline);
      this.strips.draw(g, GUTTER, outline ?? BLUES[0]);
    }
    this.marks(g, ink, height);
    g.restore();
    canvas.dataset.drawn = String(drawn);
    canvas.dataset.from = String(this.first);
    canvas.dataset.to = String(this.last);
    canvas.dataset.redraw = (performance.now() - begun).toFixed(1);
  }

  private axis(g: CanvasRenderingContext2D, ink: Record<string, string>, width: number, height: number): void {
    g.font = "11px system-ui, sans-serif";
    g.textBaseline = "middle";
    const wanted = ((this.last - this.first) / this.width) * 90;
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = power * (STEPS.find((each) => each * power >= wanted) ?? 10);
    g.fillStyle = ink.soft;
    g.strokeStyle = ink.edge;
    g.lineWidth = 1;
    for (let at = Math.ceil(this.first / step) * step; at <= this.last; at += step) {
      const x = Math.round(this.x(at)) + 0.5;
      if (x < GUTTER - 1) continue;
      g.beginPath();
      g.moveTo(x, 16);
      g.lineTo(x, height);
      g.stroke();
      g.fillText(at === 0 ? "0" : time(at), x + 2, 8);
    }
    const each = Math.max(1, Math.ceil(12 / this.rowHeight));
    g.textAlign = "right";
    this.launch.rows.forEach((label, row) => {
      if (row % each === 0) g.fillText(label, GUTTER - 6, AXIS + (row + 0.5) * this.rowHeight);
    });
    g.textAlign = "left";
    this.waves(g, ink, width, height);
  }

  /** Waves as predicted, numbered over the axis, and the tail: the last wave, where it does not fill the slots. */
  private waves(g: CanvasRenderingContext2D, ink: Record<string, string>, width: number, height: number): void {
    const { waves, chunked } = this.launch;
    if (!this.showPredicted || chunked || !waves.length) return;
    const seen = waves.filter((wave) => wave.end > this.first && wave.start < this.last);
    const tail = waves[waves.length - 1];
    if (waves.length > 1 && tail.groups < tail.slots && tail.end > this.first && tail.start < this.last) {
      const [a, b] = [Math.max(GUTTER, this.x(tail.start)), Math.min(width, this.x(tail.end))];
      g.globalAlpha = 0.12;
      g.fillStyle = ink.minus;
      g.fillRect(a, 16, b - a, height);
      g.globalAlpha = 1;
    }
    if (seen.length > this.width / 24) return;
    g.setLineDash([3, 3]);
    g.strokeStyle = ink.soft;
    g.fillStyle = ink.soft;
    for (const wave of seen) {
      const x = Math.round(this.x(wave.start)) + 0.5;
      const room = this.x(wave.end) - Math.max(x, GUTTER);
      if (x >= GUTTER) {
        g.beginPath();
        g.moveTo(x, 18);
        g.lineTo(x, height);
        g.stroke();
      }
      const short = wave === tail && waves.length > 1 && wave.groups < wave.slots;
      const label = room > 120 ? `wave ${wave.number + 1}${short ? ` (tail: ${wave.groups} of ${wave.slots})` : ""}` : room > 44 ? (short ? "tail" : `wave ${wave.number + 1}`) : room > 14 ? String(wave.number + 1) : "";
      g.fillText(label, Math.max(x, GUTTER) + 3, 25);
    }
    g.setLineDash([]);
  }

  /** Draw one band of a row; returns how many tiles are in it. */
  private band(g: CanvasRenderingContext2D, columns: Columns, lanes: Lane[], y: number, height: number, outline: string | null): number {
    const used = lanes.filter((lane) => lane.to > lane.from);
    const apart = used.length <= 1 || height / used.length >= 3;
    const [start, end] = [columns.start.data, columns.end.data];
    let count = 0;
    const width = Math.ceil(this.width);
    if (this.bins.covered.length !== width) this.bins = empty(width);
    const bins = this.bins;
    if (apart) {
      const each = height / Math.max(1, used.length);
      used.forEach((lane, n) => {
        clear(bins);
        bin(bins, start, end, lane.from, lane.to, this.first, this.last, 2);
        this.strips.add(bins.covered, 1, y + n * each, Math.max(1, each - 0.5), outline ? 0.6 : 1);
        for (const i of bins.wide) this.tile(g, columns, i, y + n * each, Math.max(1, each - 0.5), outline);
        count += bins.wide.length + bins.narrow;
      });
      return count;
    }
    clear(bins);
    for (const lane of used) bin(bins, start, end, lane.from, lane.to, this.first, this.last, Infinity);
    this.strips.add(bins.covered, used.length, y, height, outline ? 0.6 : 1);
    return bins.narrow;
  }

  private tile(g: CanvasRenderingContext2D, columns: Columns, index: number, y: number, height: number, outline: string | null): void {
    const a = Math.max(GUTTER - 2, this.x(columns.start.data[index]));
    const b = Math.min(GUTTER + this.width + 2, this.x(columns.end.data[index]));
    const gap = b - a > 4 ? 0.5 : 0;
    if (outline) {
      g.strokeStyle = outline;
      g.lineWidth = 1;
      g.strokeRect(a + 0.5, y + 0.5, Math.max(0.5, b - a - 1), Math.max(0.5, height - 1));
    } else {
      g.fillStyle = BLUES[columns.group.data[index] % 2];
      g.fillRect(a, y, b - a - gap, height);
      if (b - a >= LEFT_FOR_PHASES) this.phases(g, columns, index, y, height);
    }
    if (b - a > 34 && height >= 11) {
      g.fillStyle = outline ?? "#06263a";
      g.font = "10px system-ui, sans-serif";
      const text = String(columns.group.data[index]);
      if (g.measureText(text).width < b - a - 6) g.fillText(text, a + 3, y + height / 2 + 0.5);
    }
  }

  /** Phases are sums over a tile's turns: shares of its length, in its lower half. */
  private phases(g: CanvasRenderingContext2D, columns: Columns, index: number, y: number, height: number): void {
    const length = columns.end.data[index] - columns.start.data[index];
    let at = columns.start.data[index];
    for (const [name, values] of Object.entries(columns.phases)) {
      const part = Math.min(values.data[index], columns.start.data[index] + length - at);
      g.fillStyle = PHASES[name] ?? PALETTE[4];
      g.fillRect(this.x(at), y + height / 2, this.x(at + part) - this.x(at), height / 2);
      at += part;
    }
  }

  private marks(g: CanvasRenderingContext2D, ink: Record<string, string>, height: number): void {
    if (this.range) {
      const [a, b] = this.range.map((each) => this.x(each));
      g.fillStyle = ink.mark;
      g.globalAlpha = 0.18;
      g.fillRect(a, 16, b - a, height);
      g.globalAlpha = 1;
      g.strokeStyle = ink.mark;
      g.strokeRect(a, 16, b - a, height - 18);
    }
    const [above, below] = this.bands();
    const box = (columns: Columns, index: number, predicted: boolean, style: string): void => {
      const a = this.x(columns.start.data[index]);
      const b = this.x(columns.end.data[index]);
      const y = AXIS + columns.row.data[index] * this.rowHeight + (predicted ? above : 0);
      g.strokeStyle = style;
      g.lineWidth = 2;
      g.strokeRect(a - 1, y, Math.max(3, b - a + 2), (predicted ? below : above) + 1.5);
    };
    const main = this.launch.measured ?? this.launch.predicted;
    let left = 2000;
    for (const tile of this.chosen) if (main && left-- > 0) box(main, this.byGroup.get(tile)!, !this.launch.measured, ink.mark);
    if (this.cursor) box(this.cursor.columns, this.cursor.index, this.cursor.predicted, ink.accent);
  }

  private hit(index: number): Hit {
    return { columns: (this.launch.measured ?? this.launch.predicted)!, index, predicted: !this.launch.measured };
  }

  private find(event: PointerEvent): Hit | null {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top - AXIS];
    const row = Math.floor(y / this.rowHeight);
    if (x < GUTTER || row < 0 || row >= this.launch.rows.length) return null;
    const [above, below] = this.bands();
    const inside = y - row * this.rowHeight - 1;
    const predicted = inside >= above && below > 0;
    const columns = predicted ? this.launch.predicted! : this.launch.measured;
    if (!columns) return null;
    const used = (predicted ? this.predicted : this.measured)[row].filter((lane) => lane.to > lane.from);
    const at = this.at(x);
    const slack = ((this.last - this.first) / this.width) * 1.5;
    const near = Math.min(used.length - 1, Math.max(0, Math.floor(((predicted ? inside - above : inside) / (predicted ? below : above)) * used.length)));
    for (const lane of [used[near], ...used]) {
      if (!lane) continue;
      const index = after(columns.start.data, columns.end.data, lane.from, lane.to, at - slack);
      if (index < lane.to && columns.start.data[index] <= at + slack) return { columns, index, predicted };
    }
    return null;
  }

  told(hit: Hit): string {
    const { columns, index, predicted } = hit;
    const { launch } = this;
    const group = columns.group.data[index];
    const [start, end] = [columns.start.data[index], columns.end.data[index]];
    const parts = [`${predicted ? "predicted: " : ""}tile ${group} (${where(group, launch.axes)}) on ${launch.rows[columns.row.data[index]]}`, `${time(end - start)}, from ${time(start)} to ${time(end)}`];
    for (const [name, values] of Object.entries(columns.phases)) parts.push(`${name} ${Math.round((100 * values.data[index]) / Math.max(1e-9, end - start))}%`);
    return parts.join("; ");
  }

  private select(hit: Hit | null): void {
    this.cursor = hit;
    this.chosen.clear();
    this.range = null;
    if (hit) {
      const group = hit.columns.group.data[hit.index];
      const [start, end] = [hit.columns.start.data[hit.index], hit.columns.end.data[hit.index]];
      this.context.bus.select({ tiles: [group], time: [start, end], lines: this.launch.lines, elements: element(group, this.launch), label: `tile ${group}` }, this.root);
      this.say(this.told(hit));
    } else this.context.bus.select(null, this.root);
    this.redraw();
  }

  /** Select a stretch of time, and with it the tiles that run in it. */
  private selectTime(a: number, b: number): void {
    const [from, to] = [Math.max(0, Math.min(a, b)), Math.max(a, b)];
    const main = this.launch.measured ?? this.launch.predicted;
    const tiles: number[] = [];
    if (main) for (let i = 0; i < main.start.data.length; i++) if (main.start.data[i] < to && main.end.data[i] > from) tiles.push(main.group.data[i]);
    this.cursor = null;
    this.chosen.clear();
    this.range = [from, to];
    const label = `${time(from)} to ${time(to)}: ${tiles.length.toLocaleString("en")} tile${tiles.length === 1 ? "" : "s"}`;
    this.context.bus.select({ time: [from, to], tiles, lines: this.launch.lines, label }, this.root);
    this.say(label);
    this.redraw();
  }

  private step(by: number): void {
    const main = this.launch.measured ?? this.launch.predicted;
    if (!main?.group.data.length) return;
    const index = this.cursor && this.cursor.columns === main ? this.cursor.index + by : by > 0 ? after(main.start.data, main.end.data, 0, 0, 0) : main.group.data.length - 1;
    const hit = this.hit(Math.max(0, Math.min(main.group.data.length - 1, index)));
    const [start, end] = [main.start.data[hit.index], main.end.data[hit.index]];
    const span = this.last - this.first;
    if (start < this.first || end > this.last) this.look((start + end) / 2 - span / 2, span);
    this.select(hit);
  }

  private key(event: KeyboardEvent): void {
    const span = this.last - this.first;
    const does: Record<string, () => void> = {
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), "0": () => this.fit(),
      ArrowLeft: () => this.look(this.first - span / 5, span), ArrowRight: () => this.look(this.first + span / 5, span),
      n: () => this.step(1), p: () => this.step(-1), s: () => this.selectTime(this.first, this.last),
    };
    if (event.key === "Escape" && (this.cursor || this.range || this.chosen.size)) this.select(null);
    else if (does[event.key] && !event.ctrlKey && !event.metaKey) does[event.key]();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** The wheel belongs to the page until the canvas has the focus, or with Ctrl. */
  private wheel(event: WheelEvent): void {
    if (document.activeElement !== this.canvas && !event.ctrlKey) return;
    event.preventDefault();
    const x = event.clientX - this.canvas.getBoundingClientRect().left;
    if (event.shiftKey) this.look(this.first + ((this.last - this.first) * Math.sign(event.deltaY || event.deltaX)) / 10, this.last - this.first);
    else this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.at(x));
  }

  private press(event: PointerEvent): void {
    this.drag = { x: event.clientX, first: this.first, last: this.last, ranging: event.shiftKey, moved: false };
    this.canvas.setPointerCapture(event.pointerId);
  }

  private move(event: PointerEvent): void {
    if (!this.drag) return this.hover(event);
    const by = event.clientX - this.drag.x;
    if (Math.abs(by) > 3) this.drag.moved = true;
    if (!this.drag.moved) return;
    this.tip.hidden = true;
    const box = this.canvas.getBoundingClientRect();
    if (this.drag.ranging) {
      this.range = [this.at(this.drag.x - box.left), this.at(event.clientX - box.left)].sort((a, b) => a - b) as [number, number];
      this.redraw();
    } else this.look(this.drag.first - (by / this.width) * (this.drag.last - this.drag.first), this.drag.last - this.drag.first);
  }

  private release(event: PointerEvent): void {
    const drag = this.drag;
    this.drag = null;
    if (!drag?.moved) this.select(this.find(event));
    else if (drag.ranging && this.range) this.selectTime(...this.range);
  }

  private hover(event: PointerEvent): void {
    const hit = this.find(event);
    this.tip.hidden = !hit;
    if (!hit) return;
    this.tip.textContent = this.told(hit);
    beside(this.tip, event);
  }
}
