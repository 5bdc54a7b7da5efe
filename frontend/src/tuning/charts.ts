// The charts of the dashboard on canvases: parallel coordinates with brushes, scatter, best so far.
import { beside, colour, make } from "../core";
import { micro, type Axis, type Model } from "./model";

/** `mark` draws what is selected again, and no more. */
export interface Chart { node: HTMLElement; draw(): void; mark(): void; destroy(): void }
export interface Host { root: HTMLElement; model: Model; chosen(): number | null; choose(row: number | null): void; brushed(): void }

const HEATS = 12;
/** From the colour of the fastest to that of the slowest, dark to pale, or bright to dim on dark backgrounds. */
export function ramp(root: HTMLElement, share: number): string {
  const dark = root.classList.contains("tsr-dark");
  const from = dark ? [140, 220, 255] : [0, 68, 136], to = dark ? [62, 78, 104] : [205, 214, 224];
  return `rgb(${from.map((value, i) => Math.round(value + (to[i] - value) * share)).join(",")})`;
}

interface Area { context: CanvasRenderingContext2D; width: number; height: number; canvas: HTMLCanvasElement }

/** A canvas that fills its box at the screen's resolution, with an overlay for what changes with the pointer. */
function surface(label: string, height: number, paint: (area: Area) => void, overlay: (area: Area) => void) {
  const base = make("canvas", { "aria-hidden": "true" }), top = make("canvas", { class: "tsr-over", role: "img", tabindex: 0, "aria-label": label });
  const node = make("div", { class: "tsr-chart", style: `height:${height}px` }, base, top);
  let wide = 0; // kept, so that drawing never waits for the browser's layout
  const area = (canvas: HTMLCanvasElement): Area => {
    const ratio = devicePixelRatio || 1, width = Math.max(50, (wide ||= node.clientWidth));
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) (canvas.width = Math.round(width * ratio)), (canvas.height = Math.round(height * ratio));
    canvas.style.cssText = `width:${width}px;height:${height}px`;
    const context = canvas.getContext("2d")!;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    return { context, width, height, canvas };
  };
  const drawTop = (): void => overlay(area(top));
  const draw = (): void => { paint(area(base)); drawTop(); };
  let pending = 0;
  const later = (): void => { pending ||= requestAnimationFrame(() => { pending = 0; if (node.isConnected) draw(); }); };
  const resized = new ResizeObserver(() => { wide = node.clientWidth; later(); });
  resized.observe(node);
  return { node, top, draw: later, drawTop, destroy: () => { resized.disconnect(); cancelAnimationFrame(pending); } };
}

/** The range of a column over all rows, for axes without ticks: logarithmic. */
function extent(values: Float64Array): [number, number] {
  let low = Infinity, high = -Infinity;
  for (const value of values) if (value > 0) (low = Math.min(low, value)), (high = Math.max(high, value));
  return low > high ? [1, 10] : low === high ? [low / 1.1, high * 1.1] : [low, high];
}
/** Where a value lies on an axis, 0 to 1; and back. */
function scale(axis: Axis, values: Float64Array): { at(value: number): number; value(at: number): number; ticks: [number, string][] } {
  if (axis.ticks) {
    const count = Math.max(1, axis.ticks.length - 1);
    return { at: (value) => (axis.ticks!.length === 1 ? 0.5 : value / count), value: (at) => at * count, ticks: axis.ticks.map((text, i) => [i, text]) };
  }
  const [low, high] = extent(values).map(Math.log);
  const ticks = [0, 1 / 3, 2 / 3, 1].map((at): [number, string] => { const value = Math.exp(low + at * (high - low)); return [value, micro(value)]; });
  return { at: (value) => (Math.log(value) - low) / (high - low), value: (at) => Math.exp(low + at * (high - low)), ticks };
}
type Scale = ReturnType<typeof scale>;

/** Say what is under the pointer beside it. */
function hover(node: HTMLElement, top: HTMLElement, told: (event: PointerEvent) => string): void {
  const tip = make("div", { class: "tsr-tip", role: "tooltip", hidden: true });
  node.append(tip);
  top.addEventListener("pointermove", (event) => {
    const text = event.buttons ? "" : told(event);
    tip.hidden = text === "";
    if (tip.hidden) return;
    tip.textContent = text;
    beside(tip, event);
  });
  top.addEventListener("pointerleave", () => { tip.hidden = true; });
}

const BINS = Array.from({ length: HEATS }, (_, i) => i);

export function parallel(host: Host): Chart {
  const { root, model } = host, HEIGHT = 230, TOP = 30, BOTTOM = 14, SIDE = 48;
  let scales: Scale[] = [], axes: Axis[] = [], drag: { axis: number; from: number } | null = null;
  const x = (axis: number, width: number): number => SIDE + (axes.length < 2 ? 0 : (axis * (width - 2 * SIDE)) / (axes.length - 1));
  const y = (at: number): number => HEIGHT - BOTTOM - at * (HEIGHT - TOP - BOTTOM);
  const trace = (context: CanvasRenderingContext2D, columns: Float64Array[], row: number, width: number): void => {
    let pen = false;
    for (let i = 0; i < columns.length; i++) {
      const value = columns[i][row];
      if (Number.isNaN(value)) { pen = false; continue; }
      // Lines through one value would hide each other: they pass it a little above and below.
      const spread = axes[i].ticks ? (((row * 0.618) % 1) - 0.5) * 12 : 0;
      const [px, py] = [x(i, width), y(scales[i].at(value)) + spread];
      if (pen) context.lineTo(px, py);
      else context.moveTo(px, py);
      pen = true;
    }
  };
  /** Thousands of lines between two axes are few different ones: each is drawn once, in the colour of its fastest trial. */
  const bundled = (context: CanvasRenderingContext2D, columns: Float64Array[], bins: number[][], width: number): void => {
    const STEPS = 64, levels = axes.map((axis) => (axis.ticks ? axis.ticks.length : STEPS));
    const level = (i: number, row: number): number => (axes[i].ticks ? columns[i][row] : Math.round(scales[i].at(columns[i][row]) * (STEPS - 1)));
    const height = (i: number, at: number): number => y(axes[i].ticks ? scales[i].at(at) : at / (STEPS - 1));
    for (let i = 0; i + 1 < axes.length; i++) {
      const fastest = new Int8Array(levels[i] * levels[i + 1]).fill(-1);
      bins.forEach((rows, bin) => {
        for (const row of rows) {
          const [a, b] = [level(i, row), level(i + 1, row)];
          if (!Number.isNaN(a) && !Number.isNaN(b) && fastest[a * levels[i + 1] + b] < 0) fastest[a * levels[i + 1] + b] = bin;
        }
      });
      for (const bin of [...BINS].reverse()) {
        context.strokeStyle = ramp(root, bin / (HEATS - 1)); context.globalAlpha = 0.8;
        context.beginPath();
        for (let cell = 0; cell < fastest.length; cell++) {
          if (fastest[cell] !== bin) continue;
          context.moveTo(x(i, width), height(i, Math.floor(cell / levels[i + 1])));
          context.lineTo(x(i + 1, width), height(i + 1, cell % levels[i + 1]));
        }
        context.stroke();
      }
    }
  };
  const lines = surface("parallel coordinates of all trials; arrow keys go from trial to trial, the table below holds the same", HEIGHT, ({ context, width }) => {
    axes = model.axes;
    const columns = axes.map((axis) => model.column(axis.name));
    scales = axes.map((axis, i) => scale(axis, columns[i]));
    const bins: number[][] = BINS.map(() => []), without: number[] = [];
    for (let row = 0; row < model.size; row++) {
      const heat = model.inside[row] ? model.heat(row) : NaN;
      if (!Number.isNaN(heat)) bins[Math.min(HEATS - 1, Math.floor(heat * HEATS))].push(row);
      else if (model.data.columns.rank.data[row] >= 0) without.push(row);
    }
    const many = model.size > 2000;
    const stroke = (rows: number[], style: string, alpha: number, wide: number): void => {
      context.strokeStyle = style; context.globalAlpha = alpha; context.lineWidth = wide;
      // Long paths cost more than linearly: each line crosses all others of its path.
      for (let from = 0; from < rows.length; from += 64) {
        context.beginPath();
        for (const row of rows.slice(from, from + 64)) trace(context, columns, row, width);
        context.stroke();
      }
    };
    if (many) bundled(context, columns, bins, width);
    else {
      stroke(without, colour(root, "--edge"), 0.5, 1);
      for (const bin of [...BINS].reverse()) stroke(bins[bin], ramp(root, bin / (HEATS - 1)), 0.8, bin ? 1 : 1.6);
    }
    context.globalAlpha = 1; context.lineWidth = 1;
    axes.forEach((axis, i) => {
      const px = x(i, width);
      context.strokeStyle = context.fillStyle = colour(root, "--ink");
      context.beginPath(); context.moveTo(px, TOP - 4); context.lineTo(px, HEIGHT - BOTTOM + 4); context.stroke();
      context.textAlign = "center"; context.font = "600 11px system-ui, sans-serif";
      context.fillText(axis.label, px, 12);
      context.font = "11px system-ui, sans-serif";
      context.textAlign = i === axes.length - 1 ? "right" : "left";
      const step = Math.ceil(scales[i].ticks.length / 12);
      scales[i].ticks.forEach(([value, text], at) => {
        if (at % step) return;
        const py = y(scales[i].at(value)) + 4, tx = px + (i === axes.length - 1 ? -5 : 5);
        context.lineWidth = 3; context.strokeStyle = colour(root, "--bg"); context.strokeText(text, tx, py);
        context.lineWidth = 1; context.fillStyle = colour(root, "--soft"); context.fillText(text, tx, py);
      });
    });
  }, ({ context, width }) => {
    const columns = axes.map((axis) => model.column(axis.name));
    axes.forEach((axis, i) => {
      const range = model.ranges.get(axis.name);
      if (!range) return;
      const [a, b] = [y(scales[i].at(range[1])), y(scales[i].at(range[0]))];
      context.fillStyle = colour(root, "--accent"); context.globalAlpha = 0.3; context.fillRect(x(i, width) - 7, a - 3, 14, b - a + 6); context.globalAlpha = 1;
    });
    for (const [row, style] of [...host.model.head.pins.map((pin): [number, string] => [pin, "--change"]), [host.chosen() ?? -1, "--mark"] as [number, string]]) {
      if (row < 0) continue;
      for (const [style_, wide] of [[colour(root, "--bg"), 6], [colour(root, style), 3]] as [string, number][]) {
        context.strokeStyle = style_; context.lineWidth = wide; context.beginPath(); trace(context, columns, row, width); context.stroke();
      }
    }
  });
  const axisAt = (px: number): number => {
    const width = lines.node.clientWidth;
    return axes.reduce((nearest, _, i) => (Math.abs(x(i, width) - px) < Math.abs(x(nearest, width) - px) ? i : nearest), 0);
  };
  const brush = (event: PointerEvent): void => {
    if (!drag) return;
    const axis = axes[drag.axis], at = (py: number): number => Math.min(1, Math.max(0, (HEIGHT - BOTTOM - py) / (HEIGHT - TOP - BOTTOM)));
    const [low, high] = [at(drag.from), at(event.offsetY)].sort((a, b) => a - b).map(scales[drag.axis].value);
    if (Math.abs(event.offsetY - drag.from) < 4) model.ranges.delete(axis.name);
    else model.ranges.set(axis.name, axis.ticks ? [Math.ceil(low - 0.25), Math.floor(high + 0.25)] : [low, high]);
    host.brushed();
  };
  lines.top.addEventListener("pointerdown", (event) => {
    const axis = axisAt(event.offsetX);
    if (Math.abs(x(axis, lines.node.clientWidth) - event.offsetX) > 14) { host.choose(nearest(event)); return; }
    drag = { axis, from: event.offsetY };
    lines.top.setPointerCapture(event.pointerId);
  });
  lines.top.addEventListener("pointermove", (event) => { if (drag) brush(event); else lines.top.style.cursor = Math.abs(x(axisAt(event.offsetX), lines.node.clientWidth) - event.offsetX) <= 14 ? "ns-resize" : "pointer"; });
  lines.top.addEventListener("pointerup", (event) => { brush(event); drag = null; });
  const nearest = (event: PointerEvent): number | null => {
    const width = lines.node.clientWidth, left = axes.findLastIndex((_, i) => x(i, width) <= event.offsetX);
    if (left < 0 || left + 1 >= axes.length) return null;
    const share = (event.offsetX - x(left, width)) / (x(left + 1, width) - x(left, width));
    const [a, b] = [model.column(axes[left].name), model.column(axes[left + 1].name)];
    let found: number | null = null, distance = 9;
    for (const row of model.rows) {
      const py = y(scales[left].at(a[row]) * (1 - share) + scales[left + 1].at(b[row]) * share), off = Math.abs(py - event.offsetY);
      if (off < distance) (found = row), (distance = off);
    }
    return found;
  };
  hover(lines.node, lines.top, (event) => { const row = nearest(event); return row === null ? "" : model.told(row); });
  return { node: lines.node, draw: lines.draw, mark: lines.drawTop, destroy: lines.destroy };
}

/** Points: any column against the time. */
export function scatter(host: Host, side: () => string): Chart {
  const { root, model } = host, HEIGHT = 220, LEFT = 62, TOP = 10, BOTTOM = 34, RIGHT = 12;
  let xs = new Float32Array(0), ys = new Float32Array(0);
  const points = surface("scatter of all trials; arrow keys go from trial to trial, the table below holds the same", HEIGHT, ({ context, width }) => {
    const name = side(), time = model.column("time"), values = model.column(name);
    const axis: Axis = model.axes.find((each) => each.name === name) ?? { name, label: name, ticks: null };
    const down = scale(model.axes.at(-1)!, time);
    let most = 1;
    for (const value of values) if (value > most) most = value;
    const across = name === "trial" ? { at: (value: number) => value / most, ticks: [0, 0.5, 1].map((at): [number, string] => [Math.round(at * most), String(Math.round(at * most) + 1)]) } : scale(axis, values);
    const [w, h] = [width - LEFT - RIGHT, HEIGHT - TOP - BOTTOM];
    context.strokeStyle = colour(root, "--edge"); context.fillStyle = colour(root, "--soft"); context.lineWidth = 1;
    context.strokeRect(LEFT, TOP, w, h);
    context.textAlign = "right";
    for (const [value, text] of down.ticks) context.fillText(text, LEFT - 5, TOP + h * (1 - down.at(value)) + 4);
    context.textAlign = "center";
    const step = Math.ceil(across.ticks.length / 10), pad = name === "trial" || !axis.ticks ? 0 : 0.06;
    across.ticks.forEach(([value, text], i) => i % step || context.fillText(text, LEFT + w * (pad + (1 - 2 * pad) * across.at(value)), HEIGHT - BOTTOM + 14));
    context.fillText(axis.label, LEFT + w / 2, HEIGHT - 4);
    xs = new Float32Array(model.size).fill(NaN); ys = new Float32Array(model.size).fill(NaN);
    if (name === "predicted") {
      context.beginPath();
      const [low, high] = extent(time).map((value) => value);
      context.setLineDash([4, 4]); context.strokeStyle = colour(root, "--soft");
      const clamp = (value: number): number => Math.min(1, Math.max(0, value));
      context.moveTo(LEFT + w * clamp(across.at(low)), TOP + h * (1 - clamp(down.at(low)))); context.lineTo(LEFT + w * clamp(across.at(high)), TOP + h * (1 - clamp(down.at(high))));
      context.stroke(); context.setLineDash([]);
    }
    for (let row = 0; row < model.size; row++) {
      if (!(time[row] > 0) || Number.isNaN(values[row])) continue;
      // Points of one value would lie on a line: their place in the table spreads them.
      const spread = axis.ticks && name !== "trial" ? (((row * 0.618) % 1) - 0.5) * Math.min(0.5 / axis.ticks.length, 0.05) : 0;
      xs[row] = LEFT + w * (pad + (1 - 2 * pad) * across.at(values[row]) + spread); ys[row] = TOP + h * (1 - down.at(time[row]));
    }
    const colours = BINS.map((bin) => ramp(root, bin / (HEATS - 1))), bins = BINS.map(() => [] as number[]);
    for (let row = 0; row < model.size; row++) if (!Number.isNaN(xs[row])) bins[Math.min(HEATS - 1, Math.floor(model.heat(row) * HEATS))].push(row);
    for (const bin of [...BINS].reverse()) {
      context.fillStyle = colours[bin];
      for (const shown of [0, 1]) {
        context.globalAlpha = shown ? 0.8 : 0.1;
        for (const row of bins[bin]) if (model.inside[row] === shown) context.fillRect(xs[row] - 2, ys[row] - 2, 4, 4);
      }
    }
    context.globalAlpha = 1;
  }, ({ context }) => {
    for (const [row, style, size] of [...model.head.pins.map((pin): [number, string, number] => [pin, "--change", 5]), [model.head.best, "--plus", 6], [host.chosen() ?? -1, "--mark", 8]] as [number, string, number][]) {
      if (row < 0 || Number.isNaN(xs[row])) continue;
      context.strokeStyle = colour(root, style); context.lineWidth = 2.5;
      context.beginPath(); context.arc(xs[row], ys[row], size, 0, 7); context.stroke();
      if (row === model.head.best) { context.fillStyle = colour(root, "--plus"); context.textAlign = "center"; context.fillText("★", xs[row], ys[row] - 8); }
    }
  });
  const nearest = (event: PointerEvent): number | null => {
    let found: number | null = null, distance = 14 ** 2;
    for (let row = 0; row < xs.length; row++) {
      const off = (xs[row] - event.offsetX) ** 2 + (ys[row] - event.offsetY) ** 2;
      if (off < distance) (found = row), (distance = off);
    }
    return found;
  };
  points.top.addEventListener("pointerdown", (event) => host.choose(nearest(event)));
  hover(points.node, points.top, (event) => { const row = nearest(event); return row === null ? "" : model.told(row); });
  return { node: points.node, draw: points.draw, mark: points.drawTop, destroy: points.destroy };
}

/** Best so far: steps over the trials in the order they were settled. */
export function curve(host: Host): Chart {
  const { root, model } = host, HEIGHT = 220, LEFT = 62, TOP = 10, BOTTOM = 34, RIGHT = 12;
  const steps = surface("best time so far over the trials", HEIGHT, ({ context, width }) => {
    const found = model.head.curve, [w, h] = [width - LEFT - RIGHT, HEIGHT - TOP - BOTTOM];
    context.strokeStyle = colour(root, "--edge"); context.strokeRect(LEFT, TOP, w, h);
    context.fillStyle = colour(root, "--soft"); context.textAlign = "center";
    context.fillText("best so far over trials", LEFT + w / 2, HEIGHT - 4);
    if (!found.length) return;
    const last = Math.max(1, model.head.settled - 1), down = scale(model.axes.at(-1)!, Float64Array.from(found, ([, seconds]) => seconds));
    const px = (rank: number): number => LEFT + (w * rank) / last, py = (seconds: number): number => TOP + h * (0.05 + 0.9 * (1 - down.at(seconds)));
    for (const rank of [0, Math.round(last / 2), last]) context.fillText(String(rank + 1), px(rank), HEIGHT - BOTTOM + 14);
    context.textAlign = "right";
    for (const [value, text] of found.length > 1 ? down.ticks : [[found[0][1], micro(found[0][1])] as [number, string]]) context.fillText(text, LEFT - 5, py(value) + 4);
    context.strokeStyle = context.fillStyle = ramp(root, 0); context.lineWidth = 2;
    context.beginPath(); context.moveTo(px(found[0][0]), py(found[0][1]));
    found.forEach(([rank, seconds], i) => { if (i) context.lineTo(px(rank), py(found[i - 1][1])); context.lineTo(px(rank), py(seconds)); });
    context.lineTo(px(last), py(found.at(-1)![1])); context.stroke();
    for (const [rank, seconds] of found) { context.beginPath(); context.arc(px(rank), py(seconds), 3, 0, 7); context.fill(); }
  }, () => undefined);
  hover(steps.node, steps.top, (event) => {
    const found = model.head.curve, last = Math.max(1, model.head.settled - 1);
    const rank = ((event.offsetX - LEFT) / (steps.node.clientWidth - LEFT - RIGHT)) * last;
    const step = found.findLast(([at]) => at <= rank + 0.5);
    if (!step || rank > last + 0.5) return "";
    const row = model.data.columns.rank.data.indexOf(step[0]);
    return `after trial ${Math.round(Math.min(rank, last)) + 1}: ${micro(step[1])}, of ${model.config(row)}`;
  });
  return { node: steps.node, draw: steps.draw, mark: steps.drawTop, destroy: steps.destroy };
}
