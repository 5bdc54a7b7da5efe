// The schedule: waves over units, residency and its limit, the order of tiles, the pipeline inside a tile; predicted only.
import { button, make, register, svg, table, type Context } from "../core";
import { Lanes } from "../profile/lanes";
import { place, time, type Launch } from "../profile/types";
import style from "./schedule.css";

interface Step { role: string; name: string; number: number; stage: number; start: number; end: number }
interface Payload {
  title: string;
  text: string;
  launch: Launch;
  limits: { cause: string; blocks: number; used: number; available: number; unit: string; limits: boolean }[];
  per_unit: number;
  warps: number;
  most_warps: number;
  choices: Record<string, string>;
  order: string;
  sequence: number[];
  pipeline: Step[];
  stages: number;
  parts: Record<string, number>;
  seconds: number;
  machine_source: string;
}

/** One iteration after the other: a row a role, a box a step, with its buffer. */
function gantt(steps: Step[]): SVGElement {
  const roles = [...new Set(steps.map((step) => step.role))];
  const end = Math.max(...steps.map((step) => step.end));
  const x = (at: number): number => 130 + (at / end) * 560;
  const parts = roles.map((role, row) => svg("text", { x: 124, y: 16 + row * 26, "text-anchor": "end" }, role));
  for (const step of steps) {
    const row = roles.indexOf(step.role);
    const told = `${step.name} of iteration ${step.number}, buffer ${step.stage}: ${time(step.start)} to ${time(step.end)}`;
    parts.push(svg("rect", { class: `tsr-cell tsr-${step.name}`, x: x(step.start), y: 2 + row * 26, width: Math.max(1, x(step.end) - x(step.start)), height: 20, rx: 2 }, svg("title", {}, told)) as never);
    if (x(step.end) - x(step.start) > 18) parts.push(svg("text", { class: "tsr-dark-text", x: x(step.start) + 4, y: 16 + row * 26 }, String(step.number)));
  }
  const height = roles.length * 26 + 20;
  parts.push(svg("text", { x: 130, y: height - 4 }, "0"), svg("text", { x: 690, y: height - 4, "text-anchor": "end" }, time(end)));
  return svg("svg", { viewBox: `0 0 700 ${height}`, width: 700, style: "max-width:100%", role: "img", "aria-label": `pipeline: ${steps.map((step) => `${step.role} ${step.name} ${step.number}`).slice(0, 6).join(", ")}` }, ...parts);
}

/** The grid with a line through the groups in the order in which they begin. */
function raster(data: Payload): SVGElement | null {
  const { axes } = data.launch;
  const sizes = axes.slice(-2).map((axis) => axis.size);
  const [rows, columns] = sizes.length === 2 ? sizes : [1, sizes[0]];
  if (rows * columns > 4096 || rows * columns < 2 || axes.length > 2) return null;
  const cell = Math.max(4, Math.min(22, Math.floor(Math.min(320 / columns, 220 / rows))));
  const count = data.sequence.length;
  const parts: SVGElement[] = [];
  const spots = data.sequence.map((group) => {
    const at = place(group, axes);
    const [row, column] = at.length === 2 ? at : [0, at[0]];
    return [column * cell + cell / 2, row * cell + cell / 2, group] as const;
  });
  const wave = data.launch.waves[0]?.slots ?? data.per_unit;
  spots.forEach(([x, y, group], n) => {
    const turn = Math.floor(n / Math.max(1, wave)) % 2;
    parts.push(svg("rect", { class: "tsr-cell", x: x - cell / 2, y: y - cell / 2, width: cell, height: cell, style: `fill:color-mix(in srgb, #56b4e9 ${turn ? 30 : 60}%, var(--bg))` }, svg("title", {}, `tile ${group} begins as #${n}`)));
    if (cell >= 17) parts.push(svg("text", { x, y: y + 4, "text-anchor": "middle", style: "font-size:9px" }, String(n)));
  });
  const path = spots.slice(0, 1500).map(([x, y], n) => `${n ? "L" : "M"}${x} ${y}`).join("");
  if (cell < 17) parts.push(svg("path", { d: path, style: "fill:none;stroke:var(--ink);stroke-width:.8;opacity:.7" }));
  return svg("svg", { viewBox: `0 0 ${columns * cell} ${rows * cell}`, width: columns * cell, style: "max-width:100%", role: "img", "aria-label": `order of ${count} tiles: ${data.order}` }, ...parts);
}

function mount(root: HTMLElement, data: Payload, context: Context) {
  const { launch } = data;
  const status = make("div", { class: "tsr-foot", role: "status", "aria-live": "polite" });
  const say = (text: string): void => void (status.textContent = text || data.text);
  const lanes = new Lanes(root, launch, context, say);
  const picture = raster(data);
  const block = (title: string, ...inside: (Node | null)[]): HTMLElement => make("section", {}, make("h4", {}, title), ...inside);
  const limits = table(["limit", "blocks", "a block takes", "of"], data.limits.map((each) => [`${each.limits ? "▸ " : ""}${each.cause}`, String(each.blocks), `${each.used.toLocaleString("en")} ${each.unit}`, each.available.toLocaleString("en")]), [1, 2, 3]);
  data.limits.forEach((each, n) => limits.tBodies[0].rows[n].classList.toggle("tsr-limit", each.limits));
  const told = data.most_warps ? `residency: ${data.per_unit} block${data.per_unit === 1 ? "" : "s"}, ${data.warps} of ${data.most_warps} warps on a ${launch.unit} (▸ what limits it)` : `residency: ${data.per_unit} on a ${launch.unit}`;
  root.append(
    make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, data.title), make("span", { class: "tsr-pill" }, "predicted"), make("span", { class: "tsr-grow" }),
      button("−", "zoom out (-)", () => lanes.zoom(2)), button("+", "zoom in (+)", () => lanes.zoom(0.5)), button("fit", "fit all (0)", () => lanes.fit())),
    make("div", { class: "tsr-lanesbox" }, lanes.canvas, lanes.tip),
    make("div", { class: "tsr-parts" },
      block("launch", table(["figure", "value"], launch.figures)),
      data.limits.length ? block(told, limits) : block(told),
      Object.keys(data.choices).length ? block("choices", table(["option", "value"], Object.entries(data.choices))) : null,
      block("seconds, by the cost model", table(["part", "time"], Object.entries(data.parts).map(([name, seconds]) => [name, time(seconds * 1e9)]), [1])),
      data.pipeline.length ? block(`first iterations of a tile, ${data.stages} buffers`, gantt(data.pipeline)) : null,
      picture ? block(`order of tiles: ${data.order} (shades: waves)`, picture) : null),
    make("details", {}, make("summary", {}, "as a table"), make("div", { style: "padding:0 10px;max-height:20em;overflow:auto", tabindex: 0 },
      table(["wave", "groups", "slots", "from", "to"], launch.waves.slice(0, 64).map((wave) => [String(wave.number + 1), String(wave.groups), String(wave.slots), time(wave.start), time(wave.end)]), [0, 1, 2, 3, 4]),
      table([launch.unit, "tiles"], launch.table.map((row) => [row[0], row[3]]), [1]), make("div", { class: "tsr-soft" }, data.machine_source))),
    status);
  say("");
  lanes.redraw();
  const stop = context.bus.subscribe(root, (selection) => say(lanes.mark(selection)));
  return { themed: () => lanes.redraw(), destroy: () => (stop(), lanes.destroy()) };
}

register("schedule", mount, style);
