// The heat map: one cell a tile, over the grid of the launch.
import { colour, LongTable, make, register, table, type Context, type NDArray } from "../core";
import { painted, rangeOf, shade, type Measure, type Range } from "../profile/heat";
import { element, time, where, type Launch } from "../profile/types";
import style from "./heatmap.css";

/** Marked tiles that get a border each. */
const MOST_MARKED = 5000;
const ROW = 20, HEAD = 24;

interface Heat {
  title: string;
  axes: Launch["axes"];
  array: Launch["array"];
  unit_name: string;
  duration: NDArray;
  start: NDArray;
  order: NDArray;
  unit: NDArray;
  predicted: NDArray | null;
  least: number;
  median: number;
  most: number;
  outliers: { tile: number; place: number[]; duration: number; ratio: number }[];
  lines: number[];
}
interface Payload {
  title: string;
  text: string;
  launches: Heat[];
}

function mount(root: HTMLElement, data: Payload, context: Context) {
  const status = make("div", { class: "tsr-foot", role: "status", "aria-live": "polite" }, data.text);
  const canvas = make("canvas", { class: "tsr-heat", tabindex: 0, role: "img" });
  const body = make("div");
  let heat = data.launches[0];
  let shown = "duration";
  let slice = 0;
  let cursor = -1;
  let chosen = new Set<number>();
  let [rows, columns, cell, depth] = [1, 1, 4, 1];
  let list: { rows: LongTable; places: Uint32Array } | null = null;

  const measures: Record<string, () => Measure | null> = {
    duration: () => ({ values: heat.duration.data, word: time, name: "time" }),
    predicted: () => heat.predicted && { values: heat.predicted.data, word: time, name: "predicted time" },
    start: () => ({ values: heat.start.data, word: time, name: "start" }),
    order: () => ({ values: heat.order.data, word: (value) => `#${value}`, name: "order of starting" }),
    unit: () => ({ values: heat.unit.data, word: (value) => `${heat.unit_name} ${value}`, name: heat.unit_name }),
  };
  const scale = make("span", { class: "tsr-scale" });
  const flat = (): number => (heat.axes.length === 1 ? Math.min(heat.axes[0].size, Math.max(16, Math.ceil(Math.sqrt(heat.axes[0].size * 2)))) : 0);
  const shape = (): void => {
    const sizes = heat.axes.map((axis) => axis.size);
    if (sizes.length === 1) [depth, columns] = [1, flat()];
    else [depth, columns] = [sizes.length > 2 ? sizes[0] : 1, sizes[sizes.length - 1]];
    rows = sizes.length === 1 ? Math.ceil(sizes[0] / columns) : sizes[sizes.length - 2];
    cell = Math.max(2, Math.min(26, Math.floor(Math.min(640 / columns, 420 / rows))));
  };
  const group = (row: number, column: number): number => {
    const found = slice * rows * columns + row * columns + column;
    return row >= 0 && column >= 0 && row < rows && column < columns && found < heat.duration.data.length ? found : -1;
  };
  const told = (tile: number): string => {
    const parts = [`tile ${tile} (${where(tile, heat.axes)})`];
    const took = heat.duration.data[tile];
    if (Number.isNaN(took)) parts.push("no record");
    else parts.push(time(took), `${(took / Math.max(1e-9, heat.median)).toFixed(2)} times the median`, `began as #${heat.order.data[tile]} at ${time(heat.start.data[tile])} on ${heat.unit_name} ${heat.unit.data[tile]}`);
    if (heat.predicted) parts.push(`predicted ${time(heat.predicted.data[tile])}${took > 0 ? `, measured ${(took / Math.max(1e-9, heat.predicted.data[tile])).toPrecision(2)} times that` : ""}`);
    return parts.join("; ");
  };

  let picture: HTMLCanvasElement | null = null;
  let range: Range = { low: 0, high: 0, above: false };
  /** Paint the tiles: what is shown is another measure, launch or slice, or has other colours. */
  const paint = (): void => {
    const measure = measures[shown]() ?? measures.duration()!, outliers = shown === "duration" ? heat.outliers : [];
    const ratio = devicePixelRatio || 1, first = slice * rows * columns;
    range = rangeOf(measure.values, outliers.length ? 1.5 * heat.median : null);
    canvas.hidden = !measure.values.length;
    if (canvas.hidden) return scale.replaceChildren("the launch had no tiles");
    picture = painted(measure.values, range, { rows, columns, cell, first }, outliers.map((each) => each.tile), colour(root, "--edge"), ratio);
    canvas.style.width = `${columns * cell}px`;
    [canvas.width, canvas.height] = [picture.width, picture.height];
    if (range.low > range.high) scale.replaceChildren("no tile has a record");
    else scale.replaceChildren(measure.word(range.low), make("i", { style: `background:linear-gradient(90deg,${[0, 0.25, 0.5, 0.75, 1].map(shade).join(",")})` }), (range.above ? "≥ " : "") + measure.word(range.high));
    mark();
  };
  /** Lay the marks over the tiles that are painted. */
  const mark = (): void => {
    if (canvas.hidden) return;
    const g = canvas.getContext("2d")!, ratio = devicePixelRatio || 1, first = slice * rows * columns;
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.clearRect(0, 0, canvas.width, canvas.height);
    g.drawImage(picture!, 0, 0);
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.lineWidth = 2;
    const box = (tile: number): void => {
      const inside = tile - first;
      if (inside >= 0 && inside < rows * columns) g.strokeRect((inside % columns) * cell - 0.5, Math.floor(inside / columns) * cell - 0.5, cell, cell);
    };
    g.strokeStyle = colour(root, "--mark");
    let left = MOST_MARKED;
    for (const tile of chosen) if (left-- > 0) box(tile);
    g.strokeStyle = colour(root, "--accent");
    if (cursor >= 0) box(cursor);
    list?.rows.mark();
  };

  const choose = (tile: number): void => {
    cursor = tile;
    chosen.clear();
    if (tile >= 0) {
      const found = Math.floor(tile / (rows * columns));
      if (found !== slice) {
        slice = found;
        paint();
      }
      if (slider) slider.value = String(slice);
      const [start, took] = [heat.start.data[tile], heat.duration.data[tile]];
      const span: [number, number] | undefined = Number.isNaN(took) ? undefined : [start, start + took];
      context.bus.select({ tiles: [tile], time: span, lines: heat.lines, elements: element(tile, heat as unknown as Launch), label: `tile ${tile}` }, root);
      status.textContent = told(tile);
    } else {
      context.bus.select(null, root);
      status.textContent = data.text;
    }
    mark();
    if (tile >= 0) list?.rows.reveal(list.places[tile]);
  };
  const at = (event: MouseEvent): number => {
    const box = canvas.getBoundingClientRect();
    const size = box.width / columns;
    return group(Math.floor((event.clientY - box.top) / size), Math.floor((event.clientX - box.left) / size));
  };
  canvas.addEventListener("click", (event) => choose(at(event)));
  canvas.addEventListener("pointermove", (event) => {
    const tile = at(event);
    canvas.title = tile >= 0 ? told(tile) : "";
  });
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, PageDown: rows * columns, PageUp: -rows * columns, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape" && cursor >= 0) choose(-1);
    else if (by !== undefined) choose(Math.max(0, Math.min(heat.duration.data.length - 1, cursor >= 0 ? cursor + by : by === Infinity ? by : 0)));
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  let slider: HTMLInputElement | null = null;
  const what = make("select", { "aria-label": "what is shown", onchange: () => ((shown = what.value), paint()) });
  const outliers = make("div", { class: "tsr-outliers" });
  const show = (number: number): void => {
    heat = data.launches[number];
    [slice, cursor] = [0, -1];
    chosen = new Set();
    shape();
    what.replaceChildren(...Object.keys(measures).filter((key) => measures[key]()).map((key) => make("option", { value: key }, measures[key]()!.name)));
    what.value = shown = "duration";
    slider = depth > 1 ? make("input", { type: "range", min: 0, max: depth - 1, value: 0, "aria-label": `slice along ${heat.axes[0].name}`, oninput: () => ((slice = Number(slider!.value)), paint()) }) : null;
    const names = heat.axes.map((axis) => axis.name);
    const legend = names.length === 1 ? `${names[0]}, row after row of ${columns}` : `${names[names.length - 2]} down, ${names[names.length - 1]} across`;
    canvas.setAttribute("aria-label", `${heat.duration.data.length} tiles, ${legend}; arrows move, the list and the table beside it say the same`);
    outliers.replaceChildren(make("b", {}, heat.outliers.length ? "outliers" : "no outliers"), ...heat.outliers.map((each) =>
      make("button", { type: "button", onclick: () => choose(each.tile) }, `tile ${each.tile} at [${each.place.join(", ")}]: ${time(each.duration)}, ${each.ratio.toFixed(1)} times the median`)));
    list?.rows.destroy();
    list = null;
    const all = make("details", { ontoggle: () => (list ??= tilesOf(holder)) }, make("summary", {}, "as a table"));
    const holder = make("div", { class: "tsr-scroll tsr-tile-rows", tabindex: 0, role: "region", "aria-label": "table of all tiles, the slowest first" });
    all.append(make("div", { class: "tsr-tile-sums" }, table(["tiles", "took"], [["fastest", time(heat.least)], ["median", time(heat.median)], ["slowest", time(heat.most)]], [1])), holder);
    body.replaceChildren(
      make("div", { class: "tsr-bar" }, what, scale, make("span", { class: "tsr-soft" }, heat.array ? `over ${heat.array.name}[${heat.array.shape.join(", ")}]: ` : "", legend), slider),
      make("div", { class: "tsr-heatbox" }, make("div", { class: "tsr-heatleft" }, canvas), outliers), all);
    paint();
  };
  /** Every tile as a row, the slowest first, those without a record last. */
  const tilesOf = (holder: HTMLElement): { rows: LongTable; places: Uint32Array } => {
    const took = heat.duration.data;
    const order = Uint32Array.from(took.keys()).sort((a, b) => (Number.isNaN(took[a]) || Number.isNaN(took[b]) ? Number(Number.isNaN(took[a])) - Number(Number.isNaN(took[b])) : took[b] - took[a]) || a - b);
    const places = new Uint32Array(order.length);
    order.forEach((tile, n) => (places[tile] = n));
    const body = make("tbody", { onclick: (event: MouseEvent) => {
      const row = (event.target as HTMLElement).closest<HTMLElement>("[data-tile]");
      if (row) choose(Number(row.dataset.tile));
    } });
    const grid = make("table", { class: "tsr-table" }, make("thead", {}, make("tr", {}, ...["tile", "place", "took", "on"].map((name, n) => make("th", { scope: "col", class: n === 0 || n === 2 ? "tsr-num" : null }, name)))), body);
    holder.replaceChildren(grid);
    const made = new LongTable(holder, grid, body, {
      tall: ROW, head: HEAD, count: () => order.length, on: (n) => order[n] === cursor || chosen.has(order[n]),
      row: (n) => {
        const tile = order[n], known = !Number.isNaN(took[tile]);
        return make("tr", { "data-tile": tile }, make("td", { class: "tsr-num" }, String(tile)), make("td", {}, where(tile, heat.axes)),
          make("td", { class: "tsr-num" }, known ? time(took[tile]) : ""), make("td", {}, known ? `${heat.unit_name} ${heat.unit.data[tile]}` : "no record"));
      },
    });
    made.draw();
    return { rows: made, places };
  };
  const launches = make("select", { "aria-label": "launch", onchange: (event: Event) => show(Number((event.target as HTMLSelectElement).value)) }, ...data.launches.map((_, n) => make("option", { value: n }, `phase ${n + 1} of ${data.launches.length}`)));
  root.append(make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, data.title), make("span", { class: "tsr-grow" }), data.launches.length > 1 ? launches : null), body, status);
  show(0);
  const stop = context.bus.subscribe(root, (selection) => {
    chosen = new Set((selection?.tiles ?? []).filter((tile) => tile < heat.duration.data.length));
    cursor = -1;
    if (!selection) status.textContent = data.text;
    else if (chosen.size === 1) status.textContent = told([...chosen][0]);
    else if (chosen.size) status.textContent = `${chosen.size.toLocaleString("en")} tiles`;
    else status.textContent = selection.lines?.some((line) => heat.lines.includes(line)) ? `${selection.label ?? "this line"}: every tile runs it` : "no counterpart among the tiles";
    mark();
  });
  return { themed: paint, destroy: () => { stop(); list?.rows.destroy(); } };
}

register("heatmap", mount, style);
