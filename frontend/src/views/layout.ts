// The layout view: a tile as a grid, coloured and numbered by lane, register, warp or bank, with the formulas both ways.
import { button, make, plural, register, table, type Child, type Context, type NDArray, type Selection } from "../core";
import { Grid, type Cells } from "../tiles/grid";
import { indices } from "../tiles/data";
import style from "./layout.css";

interface Access { name: string; size: number; degree: number; first: number[]; together: number; colliding: number[]; rows: [string, string, string][] }
interface Layout {
  title: string; kind: "registers" | "shared"; shape: number[]; columns: number; fields: { name: string; values: NDArray }[]; forward: string; backward: string;
  facts: string[]; held: [string, string, string][]; accesses: Access[]; lines: number[]; ops: number[];
}
interface Payload { title: string; text: string; group?: string; grids: Layout[]; left_out: string[] }

const HELD = 128;

/** A colour for a number, far from those of its neighbours in hue and lightness. */
function shade(value: number, dark: boolean): [number, number, number, number] {
  const hue = (value * 137.508) % 360;
  const light = (dark ? 0.26 : 0.82) + 0.05 * ((value >> 3) % 3) * (dark ? 1 : -1);
  const part = (n: number): number => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (light - 0.55 * Math.min(light, 1 - light) * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [part(0), part(8), part(4), 255];
}

function mount(root: HTMLElement, data: Payload, context: Context) {
  let chosen = 0;
  let field = 0;
  let access: number | null = null;
  let lane: number | null = null;
  const now = (): Layout => data.grids[chosen];
  const status = make("div", { class: "tsr-foot", role: "status", "aria-live": "polite" });
  const say = (text: string): void => void (status.textContent = text);
  const count = (): number => now().fields[0].values.data.length;
  const rows = (): number => Math.ceil(count() / now().columns);
  const element = (row: number, column: number): number => (row * now().columns + column < count() && column < now().columns ? row * now().columns + column : -1);
  const accessNow = (): Access | null => (access === null ? null : now().accesses[access] ?? null);
  // For each element the lanes of the access that want it.
  let wanted = new Map<number, number[]>();

  const describe = (place: number): string => {
    const layout = now();
    const at = indices(place, layout.shape).join(", ");
    const parts = layout.fields.map((each) => `${each.name} ${each.values.data[place]}`).join(", ");
    const lanes = wanted.get(place);
    const collide = lanes?.filter((each) => accessNow()!.colliding.includes(each)) ?? [];
    return `[${at}]: ${parts}${lanes ? `; accessed by ${lanes.length > 1 ? "lanes" : "lane"} ${lanes.join(", ")}${collide.length ? " (bank conflict)" : ""}` : ""}`;
  };
  const cells = (): Cells => {
    const layout = now();
    const dark = root.classList.contains("tsr-dark");
    const values = layout.fields[field].values.data;
    const lanes = layout.fields.findIndex((each) => each.name === "lane");
    const off = (place: number): boolean => (accessNow() !== null && !wanted.has(place)) || (lane !== null && lanes >= 0 && layout.fields[lanes].values.data[place] !== lane);
    const number = layout.fields[field].name === "16-byte unit" || layout.kind === "registers" || layout.fields[field].name === "bank" ? (place: number) => values[place] : (place: number) => values[place] >> 4;
    return {
      rows: rows(), columns: layout.columns,
      fill(row, column) {
        const place = element(row, column);
        if (place < 0 || values[place] < 0) return null;
        const [r, g, b] = shade(number(place), dark);
        return [r, g, b, off(place) ? 60 : 255];
      },
      hatch(row, column) {
        const of = wanted.get(element(row, column));
        return of ? (of.some((each) => accessNow()!.colliding.includes(each)) ? "x" : "/") : "";
      },
      text(row, column) {
        const place = element(row, column);
        if (place < 0) return "";
        const of = wanted.get(place);
        if (of) return `${values[place]}\nL${of[0]}${of.length > 1 ? "+" : ""}`;
        if (layout.kind === "registers" && layout.fields[field].name === "lane") return `${values[place]}\nr${layout.fields[1].values.data[place]}`;
        return String(values[place]);
      },
    };
  };
  const grid = new Grid(root, "layout: arrows move between elements, + and - zoom", { rows: 1, columns: 1, fill: () => null }, {
    at: (row, column) => {
      const place = element(row, column);
      if (place < 0) return say("outside the tile");
      const lanes = now().fields.find((each) => each.name === "lane");
      if (lanes) lane = lane === lanes.values.data[place] ? lane : lanes.values.data[place];
      refresh(false);
      say(describe(place));
    },
    hover: (row, column) => {
      const place = row === null ? -1 : element(row, column);
      say(place < 0 ? summary() : describe(place));
    },
    key: (event) => {
      if (event.key === "Escape" && lane !== null) lane = null;
      else if (event.key === "f") field = (field + 1) % now().fields.length;
      else return false;
      refresh();
      say(summary());
      return true;
    },
  }, 460, 34);
  const summary = (): string => {
    const found = accessNow();
    if (found) return `${found.name}: ${told(found)}${found.colliding.length ? `; ${plural(found.colliding.length, "lane")} collide` : ""}`;
    return `${now().title}; coloured by ${now().fields[field].name}${lane === null ? "" : `, lane ${lane} alone in full colour (Escape: all)`}`;
  };
  const told = (each: Access): string => (each.degree === 1 ? "no bank conflict" : `${each.degree}-way bank conflict`);

  const head = make("div", { class: "tsr-bar" });
  const side = make("div", { tabindex: 0, role: "region", "aria-label": "formulas and accesses" });
  const formula = make("div", { class: "tsr-formula" });
  const sheet = make("div", { class: "tsr-scroll", tabindex: 0 });
  const choose = (next: number, quiet = false): void => {
    chosen = Math.max(0, Math.min(data.grids.length - 1, next));
    field = 0;
    lane = null;
    const worst = Math.max(0, ...now().accesses.map((each) => each.degree));
    access = worst > 1 ? now().accesses.findIndex((each) => each.degree === worst) : null;
    grid.cursor = null;
    refresh();
    say(summary());
    if (!quiet && now().lines.length) context.bus.select({ lines: now().lines, ops: now().ops, label: now().title }, root);
  };
  function refresh(all = true): void {
    const layout = now();
    wanted = new Map();
    const found = accessNow();
    found?.first.forEach((from, each) => {
      for (let n = 0; n < found.together; n++) wanted.set(from + n, [...(wanted.get(from + n) ?? []), each]);
    });
    grid.show(cells());
    if (!all) return;
    head.replaceChildren(
      ...(data.grids.length > 1 ? [make("select", { "aria-label": "layout", onchange: (event) => choose(Number(event.target.value)) }, ...data.grids.map((each, n) => make("option", { value: n, selected: n === chosen }, each.title)))] : []),
      make("span", { class: "tsr-soft" }, "colour and number by"),
      ...layout.fields.map((each, n) => make("button", { type: "button", "aria-pressed": String(n === field), onclick: () => { field = n; refresh(); say(summary()); } }, each.name)),
      button("+", "zoom in", () => grid.zoom(1.4)), button("−", "zoom out", () => grid.zoom(1 / 1.4)));
    formula.replaceChildren(
      make("div", {}, make("span", {}, layout.kind === "registers" ? "element of register r of a lane: " : "where an element lies: "), layout.forward),
      make("div", {}, make("span", {}, layout.kind === "registers" ? "place of an element: " : "element at an offset: "), layout.backward));
    const parts: Child[] = layout.facts.map((each) => make("div", { class: "tsr-soft" }, each));
    if (layout.accesses.length) {
      const picks = layout.accesses.map((each, n) => [make("button", { type: "button", "aria-pressed": String(n === access), title: `mark the lanes of ${each.name}`, onclick: () => { access = access === n ? null : n; refresh(); say(summary()); } }, each.name),
        make("span", { class: `tsr-degree${each.degree > 1 ? " tsr-bad" : ""}` }, each.degree > 1 ? `⚠ ${each.degree}-way` : "1")] as Child[]);
      parts.push(table(["access of a warp", "bank conflict"], picks, [], "degree: how many times as long as without conflicts"));
    }
    if (found?.rows.length) parts.push(table(["bank", "lanes served together", "words wanted of it"], found.rows, [0], `conflicts of ${found.name}`));
    if (layout.held.length) parts.push(table(["warp", "lane", "elements it holds, by register"], layout.held.slice(0, HELD), [0, 1], layout.held.length > HELD ? `the first ${HELD} of ${layout.held.length} lanes` : ""));
    side.replaceChildren(...parts.filter((each): each is Node => each instanceof Node));
    const shown = Math.min(rows(), 64);
    sheet.replaceChildren(table(["", ...Array.from({ length: Math.min(layout.columns, 64) }, (_, n) => String(n))], Array.from({ length: shown }, (_, row) => [String(row), ...Array.from({ length: Math.min(layout.columns, 64) }, (_, column) => { const place = element(row, column); return place < 0 ? "" : String(layout.fields[field].values.data[place]); })]), [], `${layout.fields[field].name} of each element${rows() > 64 || layout.columns > 64 ? ", the first 64 rows and columns" : ""}`));
  }

  root.append(
    make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, data.title), make("span", { class: "tsr-pill" }, plural(data.grids.length, "layout"))),
    ...data.left_out.map((text) => make("div", { class: "tsr-note" }, text)),
    head,
    make("div", { class: "tsr-layout" }, make("div", { class: "tsr-room" }, grid.canvas, formula), side),
    status,
    make("details", {}, make("summary", {}, "as a table"), sheet));
  const stop = context.bus.subscribe(root, (selection: Selection | null) => {
    if (!selection?.lines && !selection?.ops) return;
    const next = data.grids.findIndex((each) => each.ops.some((op) => selection.ops?.includes(op)) || each.lines.some((line) => selection.lines?.includes(line)));
    next >= 0 ? choose(next, true) : say("no counterpart among the layouts");
  });
  choose(0, true);
  return { themed: () => grid.show(cells()), destroy: () => { stop(); grid.destroy(); } };
}

register("layout", mount, style);
