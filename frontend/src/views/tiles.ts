// The tiles view: a debugger that steps a recorded launch, with every array marked by what the tile and lane touch.
import { button, make, plural, register, table, PALETTE, type Child, type Context, type Selection } from "../core";
import { Grid, rgba, type Cells } from "../tiles/grid";
import { at, Contents, each, find, indices, shown, size, type ArrayData, type Payload, type Touch, type Variable } from "../tiles/data";
import style from "./tiles.css";

const [READ, WRITTEN] = [PALETTE[0], PALETTE[1]];
const BOTH = "#9a8fd0";
const EARLIER = 70;
const NOW = 200;
const WARP = 32;
const LATER = 45;
// Bits of a mark: read or written by the tile so far, by this statement, or only by later ones.
const [OLD_READ, OLD_WRITE, NEW_READ, NEW_WRITE, LATER_READ, LATER_WRITE] = [1, 2, 4, 8, 16, 32];

const MOST_CELLS = 1e6;

/** An array as rows and columns: one of a single axis is folded, one of more than two is shown slice by slice.
 *  Of a very large one a cell stands for a square of `thin` x `thin` elements. */
class Shape2 {
  readonly columns: number;
  readonly rows: number;
  readonly slices: number;
  readonly thin: number;
  constructor(readonly shape: number[]) {
    const count = size(shape);
    this.columns = shape.length > 1 ? shape[shape.length - 1] : count <= WARP ? count : Math.min(1024, Math.max(WARP, Math.ceil(Math.sqrt(count * 2) / WARP) * WARP));
    this.rows = shape.length > 1 ? shape[shape.length - 2] : Math.ceil(count / Math.max(1, this.columns));
    this.slices = shape.length > 2 ? size(shape.slice(0, -2)) : 1;
    this.thin = Math.max(1, Math.ceil(Math.sqrt((this.rows * this.columns) / MOST_CELLS)));
  }
  /** Rows and columns of cells. */
  get down(): number {
    return Math.ceil(this.rows / this.thin);
  }
  get along(): number {
    return Math.ceil(this.columns / this.thin);
  }
  /** The first element of a cell; -1 outside the array. */
  element(slice: number, down: number, along: number): number {
    const [row, column] = [down * this.thin, along * this.thin];
    const found = (slice * this.rows + row) * this.columns + column;
    return column < this.columns && row < this.rows && found < size(this.shape) ? found : -1;
  }
  /** Slice, row and column of the cell that an element is in. */
  place(element: number): [number, number, number] {
    const inSlice = this.rows * this.columns;
    return [Math.floor(element / inSlice) % this.slices, Math.floor(Math.floor((element % inSlice) / this.columns) / this.thin), Math.floor((element % this.columns) / this.thin)];
  }
}

interface Pane { array: number; known: ArrayData; form: Shape2; contents: Contents; slice: number; grid: Grid; head: HTMLElement; said: HTMLElement; marks: Uint8Array; box: [number, number, number, number] | null }

function mount(root: HTMLElement, data: Payload, context: Context) {
  let inner = build(root, data, context, null);
  return { themed: () => inner.themed(), destroy: () => inner.destroy() };

  function build(root: HTMLElement, data: Payload, context: Context, asked: number | null) {
    const holder = make("div");
    root.append(holder);
    const view = draw(holder, root, data, context, asked, (next, number) => {
      inner.destroy();
      holder.remove();
      inner = build(root, next, context, number);
    });
    return view;
  }
}

function draw(holder: HTMLElement, root: HTMLElement, data: Payload, context: Context, asked: number | null, replace: (next: Payload, tile: number | null) => void) {
  const { steps, tiles, arrays } = data;
  if (!steps.length) return nothing(holder, data);
  const byTile: number[][] = tiles.map(() => []);
  steps.forEach((step, n) => byTile[step.tile].push(n));
  const firstTile = Math.max(0, tiles.findIndex((tile, n) => tile.number >= 0 && byTile[n].length));
  let now = data.focus?.step ?? byTile[firstTile]?.[0] ?? 0;
  let preview: number | null = null;
  let lane: number | null = null;
  let target: number | null = null;
  let variable: string | null = null;
  let cursor: { array: number; element: number } | null = null;

  const status = make("div", { class: "tsr-foot", role: "status", "aria-live": "polite" });
  const where = make("b");
  const slider = make("input", { type: "range", class: "tsr-steps", min: 0, max: Math.max(0, steps.length - 1), value: 0, "aria-label": "statement", oninput: () => go(Number(slider.value)) });

  // -- where we are -----------------------------------------------------------------------------------------------
  const tileNow = (): number => steps[now]?.tile ?? 0;
  const told = (): string => {
    const step = steps[now];
    const named = tiles[step.tile].name.split(", ");
    const trips = tripsOf(step.trips).filter((each) => !named.includes(each)).join(", ");
    const words = step.touches.map((touch) => `${touch.writes ? "writes" : "reads"} ${arrays[touch.array].name}${touch.text}${touch.outside ? `, ${plural(touch.outside, touch.lanes ? "lane" : "element")} masked off at the edge` : ""}`);
    const active = step.active ? `, ${lanesOf(step.active)} of ${plural(tiles[step.tile].lanes[1] - tiles[step.tile].lanes[0], "lane")} active` : "";
    return `statement ${now + 1} of ${steps.length}, line ${step.line}, tile ${tiles[step.tile].name}${trips ? `, ${trips}` : ""}${active}${words.length ? `: ${words.join("; ")}` : ""}`;
  };
  const lanesOf = (runs: Touch["elements"]): number => {
    let count = 0;
    for (let row = 0; row < runs.shape[0]; row++) count += runs.data[3 * row + 1];
    return count;
  };
  const say = (text: string): void => void (status.textContent = text);
  const tell = (): void => {
    const step = steps[now];
    context.bus.select({ tiles: tiles[step.tile].number >= 0 ? [tiles[step.tile].number] : [], lines: [step.line], label: `line ${step.line}, tile ${tiles[step.tile].name}` }, root);
  };
  const go = (next: number, quiet = false): void => {
    now = Math.max(0, Math.min(steps.length - 1, next));
    refresh();
    say(told());
    if (!quiet) tell();
  };
  const own = (): number[] => byTile[tileNow()];
  const step = (by: number): void => {
    const mine = own();
    const next = mine[mine.indexOf(now) + by];
    go(next ?? now + by);
  };
  const trip = (by: number): void => {
    const key = (n: number): string => steps[n].trips.map(([, , number]) => number).join();
    const mine = own();
    let place = mine.indexOf(now);
    while (mine[place] !== undefined && key(mine[place]) === key(now)) place += by;
    if (mine[place] === undefined) return say("no other trip of a loop in this tile");
    const found = key(mine[place]);
    while (by < 0 && place > 0 && key(mine[place - 1]) === found) place--;
    go(mine[place]);
  };
  const toTile = (number: number): void => {
    const next = Math.max(0, Math.min(tiles.length - 1, number));
    // The same statement of the other tile, where it gets there: what is compared most.
    const step = steps[now];
    const same = byTile[next].find((n) => steps[n].line === step.line && steps[n].kind === step.kind);
    go(same ?? byTile[next][0] ?? now);
  };
  const runTo = (): void => {
    if (target === null) return say("choose a line first: click it, or press Enter on it");
    const later = [...own().filter((n) => n > now), ...steps.keys()].find((n) => n > now && steps[n].line === target);
    later === undefined ? say(`line ${target} is not reached again`) : go(later);
  };

  // -- arrays -----------------------------------------------------------------------------------------------------
  const panes: Pane[] = [];
  const touchesOf = (array: number, call: (touch: Touch, n: number) => void, only: number): void => {
    for (const n of byTile[only]) for (const touch of steps[n].touches) if (touch.array === array) call(touch, n);
  };
  const byLane = (touch: Touch, order: number): boolean => lane === null || !touch.lanes || at(touch.lanes, order) === lane;
  const mark = (pane: Pane): void => {
    pane.marks.fill(0);
    let [top, left, bottom, right] = [Infinity, Infinity, -1, -1];
    const shownTile = preview ?? tileNow();
    touchesOf(pane.array, (touch, n) => {
      const bit = preview === null && n === now ? (touch.writes ? NEW_WRITE : NEW_READ) : preview === null && n > now ? (touch.writes ? LATER_WRITE : LATER_READ) : touch.writes ? OLD_WRITE : OLD_READ;
      each(touch.elements, (element, order) => {
        if (!byLane(touch, order)) return;
        const [slice, row, column] = pane.form.place(element);
        if (slice !== pane.slice) return;
        pane.marks[row * pane.form.along + column] |= bit;
        (top = Math.min(top, row)), (left = Math.min(left, column)), (bottom = Math.max(bottom, row)), (right = Math.max(right, column));
      });
    }, shownTile);
    pane.box = bottom < 0 ? null : [top, left, bottom + 1, right + 1];
  };
  const cellsOf = (pane: Pane): Cells => {
    const { form } = pane;
    const values = pane.contents.after(now);
    const bounds = extent(values);
    const ink = rgba(getComputedStyle(root).color);
    const asks = (preview === null ? steps[now]?.touches ?? [] : []).filter((touch) => touch.array === pane.array && touch.asked.length);
    const beyond = asks.filter((touch) => touch.outside);
    const flat = form.shape.length === 1;
    const extra = (axis: number): number => Math.max(0, ...beyond.map((touch) => (flat ? 0 : Math.ceil(touch.asked[touch.asked.length - 2 + axis][1] / form.thin))));
    const [rows, columns] = [Math.max(form.down, extra(0)), Math.max(form.along, extra(1))];
    const bitsAt = (row: number, column: number): number => pane.marks[row * form.along + column];
    const element = (row: number, column: number): number => form.element(pane.slice, row, column);
    const hue = (bits: number): string => ((bits & 5 && bits & 10) ? BOTH : bits & 10 ? WRITTEN : READ);
    return {
      rows, columns,
      fill(row, column) {
        const place = element(row, column);
        if (place < 0) return null;
        const bits = bitsAt(row, column);
        if (bits & 15) return rgba(hue(bits & 15), bits & (NEW_READ | NEW_WRITE) || preview !== null ? (root.classList.contains("tsr-dark") ? NOW - 50 : NOW) : EARLIER);
        if (bits) return rgba(hue(bits >> 4), LATER);
        const value = values?.[place];
        if (value === undefined || !bounds) return null;
        return Number.isFinite(value) ? [ink[0], ink[1], ink[2], 8 + 70 * ((value - bounds[0]) / (bounds[1] - bounds[0] || 1))] : rgba("#d03030", 130);
      },
      hatch(row, column) {
        const place = element(row, column);
        if (place < 0) return beyond.some((touch) => !flat && inside(touch.asked, row * form.thin, column * form.thin)) ? "x" : "";
        const bits = bitsAt(row, column) & (preview === null ? NEW_READ | NEW_WRITE : 15);
        return bits & 5 && bits & 10 ? "x" : bits & 10 ? "\\" : bits ? "/" : "";
      },
      text(row, column) {
        const place = element(row, column);
        if (place < 0) return "";
        const bits = bitsAt(row, column) & 15;
        const sign = bits & 5 && bits & 10 ? "B" : bits & 10 ? "W" : bits ? "R" : "";
        const value = values ? shown(values[place]) : "";
        return values ? (sign ? `${sign}\n${value}` : value) : sign;
      },
      // All that the tile touches, so that little of a large array is found; then what this statement asks for.
      frames: () => [...(pane.box ? [{ from: [pane.box[0], pane.box[1]] as [number, number], to: [pane.box[2], pane.box[3]] as [number, number], colour: getComputedStyle(root).color, dashed: false, thin: true }] : []), ...asks.filter(() => !flat).map((touch) => {
        const [down, along] = touch.asked.slice(-2);
        return { from: [down[0] / form.thin, along[0] / form.thin] as [number, number], to: [down[1] / form.thin, along[1] / form.thin] as [number, number], colour: touch.writes ? WRITTEN : READ, dashed: touch.outside > 0 };
      })],
    };
  };
  const inside = (box: [number, number][], row: number, column: number): boolean => {
    const [down, along] = box.slice(-2);
    return down[0] <= row && row < down[1] && along[0] <= column && column < along[1];
  };
  const users = (array: number, element: number) => {
    const found: { n: number; touch: Touch; lane: number | null }[] = [];
    steps.forEach((step, n) => step.touches.forEach((touch) => {
      if (touch.array !== array) return;
      const order = find(touch.elements, element);
      if (order >= 0) found.push({ n, touch, lane: touch.lanes ? at(touch.lanes, order) : null });
    }));
    return found;
  };
  /** What is under the cursor where a cell stands for many elements: exact counts for the tile shown. */
  const describeSquare = (pane: Pane, element: number): string => {
    const { form } = pane;
    const home = form.place(element).join();
    const [read, written] = [new Set<number>(), new Set<number>()];
    touchesOf(pane.array, (touch, n) => n <= now && each(touch.elements, (other) => form.place(other).join() === home && (touch.writes ? written : read).add(other)), tileNow());
    const low = indices(element, pane.known.shape);
    const slice = low.map((from, axis) => (axis < low.length - 2 ? String(from) : `${from}:${Math.min(from + form.thin, pane.known.shape[axis])}`)).join(", ");
    return `${pane.known.name}[${slice}]: ${plural(read.size, "element")} read and ${written.size.toLocaleString("en")} written by tile ${tiles[tileNow()].name} so far`;
  };
  const describe = (pane: Pane, element: number): string => {
    if (pane.form.thin > 1) return describeSquare(pane, element);
    const value = pane.contents.after(now)?.[element];
    const all = users(pane.array, element);
    const names = (writes: boolean): string => {
      const own = [...new Set(all.filter((use) => use.touch.writes === writes).map((use) => steps[use.n].tile))];
      return own.length ? `${writes ? "written" : "read"} by ${own.slice(0, 4).map((n) => tiles[n].name).join("; ")}${own.length > 4 ? ` and ${own.length - 4} more` : ""}` : "";
    };
    const writer = all.filter((use) => use.touch.writes && use.n <= now).at(-1);
    const trips = writer ? tripsOf(steps[writer.n].trips).join(", ") : "";
    const last = writer ? `last written by line ${steps[writer.n].line}${trips ? ` at ${trips}` : ""}${writer.lane === null ? "" : `, lane ${writer.lane} of ${tiles[steps[writer.n].tile].name}`}` : "";
    const parts = [`${pane.known.name}[${indices(element, pane.known.shape).join(", ")}]${value === undefined ? "" : ` = ${shown(value)}`}`, names(false), names(true), last];
    for (const n of tileButtons.keys()) tileButtons[n].classList.toggle("tsr-uses", all.some((use) => steps[use.n].tile === n));
    return parts.filter(Boolean).join("; ") + (all.length ? "" : "; touched by no recorded tile");
  };
  const choose = (pane: Pane, element: number): void => {
    cursor = { array: pane.array, element };
    say(describe(pane, element));
    const touched = [...new Set(users(pane.array, element).map((use) => tiles[steps[use.n].tile].number))].filter((n) => n >= 0);
    context.bus.select({ elements: [{ array: pane.known.name, place: indices(element, pane.known.shape) }], tiles: touched, label: `${pane.known.name}[${indices(element, pane.known.shape).join(", ")}]` }, root);
  };
  const keys = (event: KeyboardEvent): boolean => {
    const does: Record<string, () => void> = {
      PageDown: () => step(1), PageUp: () => step(-1), n: () => step(1), p: () => step(-1), l: () => trip(1), L: () => trip(-1),
      t: () => toTile(tileNow() + 1), T: () => toTile(tileNow() - 1), r: runTo,
    };
    const act = does[event.key];
    act?.();
    return act !== undefined;
  };

  const boxes = arrays.map((known, array) => {
    const form = new Shape2(known.shape);
    const said = make("span", { class: "tsr-soft" });
    const pane = { array, known, form, contents: new Contents(data, array), slice: 0, said, marks: new Uint8Array(form.down * form.along) } as Pane;
    pane.grid = new Grid(root, `${known.name}, ${known.dtype}[${known.shape.join(", ")}]: arrows move between elements, Page Down and Page Up step statements`, { rows: 1, columns: 1, fill: () => null }, {
      at: (row, column) => { const element = form.element(pane.slice, row, column); if (element >= 0) choose(pane, element); else say("outside the array: masked off"); },
      hover: (row, column) => {
        if (row === null) { for (const each of tileButtons) each.classList.remove("tsr-uses"); return say(told()); }
        const element = form.element(pane.slice, row, column);
        say(element < 0 ? "outside the array: masked off" : describe(pane, element));
      },
      key: (event) => {
        if (event.key === "Enter" && cursor?.array === array) {
          const writer = users(array, cursor.element).filter((use) => use.n <= now).at(-1) ?? users(array, cursor.element)[0];
          if (writer) go(writer.n);
          return true;
        }
        return keys(event);
      },
    });
    const slicer = form.slices > 1
      ? make("label", {}, "slice ", make("input", { type: "number", min: 0, max: form.slices - 1, value: 0, "aria-label": `slice of ${known.name}`, oninput: (event) => { pane.slice = Math.max(0, Math.min(form.slices - 1, Number(event.target.value))); refresh(); } }))
      : null;
    pane.head = make("div", { class: "tsr-arrayhead" }, make("b", {}, known.name), make("span", { class: "tsr-soft" }, `${known.dtype}[${known.shape.join(", ")}]${known.shared ? ", shared memory" : ""}`), slicer,
      button("+", `zoom ${known.name} in`, () => pane.grid.zoom(1.5)), button("−", `zoom ${known.name} out`, () => pane.grid.zoom(1 / 1.5)), said);
    panes.push(pane);
    pane.grid.limit = () => 2 * Math.min(...panes.filter((each) => each.form.shape.length > 1).map((each) => each.grid.whole()), form.shape.length > 1 ? Infinity : 15);
    return make("div", { class: `tsr-array${form.shape.length > 1 ? "" : " tsr-wide"}` }, pane.head, pane.grid.canvas);
  });

  // -- variables --------------------------------------------------------------------------------------------------
  const vars = make("div", { class: "tsr-vars" });
  const values = make("div", { class: "tsr-room" });
  const valueSaid = make("div", { class: "tsr-soft" });
  let valueGrid: Grid | null = null;
  const variables = (): Map<string, { of: Variable; n: number }> => {
    const found = new Map<string, { of: Variable; n: number }>();
    for (const n of own()) if (n <= now) for (const of of steps[n].variables) found.delete(of.name), found.set(of.name, { of, n });
    return found;
  };
  const pick = (of: Variable, place: number[]): number | undefined => {
    if (!of.values) return undefined;
    const inSample = place.map((n, axis) => Math.floor(n / (of.stride[axis] ?? 1)));
    if (place.some((n, axis) => n % (of.stride[axis] ?? 1))) return undefined;
    return of.values.data[inSample.reduce((sum, n, axis) => sum * of.values!.shape[axis] + n, 0)];
  };
  const bars = (of: Variable): Child => {
    const { bins, least, greatest, count } = of.stats;
    if (bins.length < 2) return "";
    const most = Math.max(...bins);
    const words = `histogram of ${plural(count, "value")} from ${shown(least)} to ${shown(greatest)}: ${bins.join(", ")}`;
    return make("span", { class: "tsr-bars", role: "img", "aria-label": words, title: words }, ...bins.map((n) => make("i", { style: `height:${Math.round((100 * n) / most)}%` })));
  };
  const showVariables = (): void => {
    const known = variables();
    const firstLane = tiles[tileNow()].lanes[0];
    const rows = [...known].reverse().map(([name, { of, n }]) => {
      const single = !of.shape.length ? of.values?.data[0] : of.by_lane ? (lane === null ? undefined : pick(of, [lane - firstLane])) : undefined;
      const { least, greatest, nan, inf, absent } = of.stats;
      const bad = [nan && `${nan.toLocaleString("en")} NaN`, inf && `${inf.toLocaleString("en")} inf`].filter(Boolean).join(", ");
      const open = make("button", { type: "button", "aria-pressed": String(name === variable), title: `show the values of ${name}`, onclick: () => { variable = variable === name ? null : name; showVariables(); } }, `${n === now ? "● " : ""}${name}`);
      return [open, `${of.dtype}${of.shape.length ? `[${of.shape.join(", ")}]` : ""}${of.by_lane ? " a lane" : ""}`,
        single !== undefined ? shown(single) : of.stats.count ? (least === greatest ? shown(least) : `${shown(least)} … ${shown(greatest)}`) : "",
        bars(of), make("span", {}, bad && make("span", { class: "tsr-bad" }, `⚠ ${bad} `), absent ? `${absent.toLocaleString("en")} ${of.by_lane ? "not active" : "absent"}` : "")] as Child[];
    });
    vars.replaceChildren(rows.length ? table(["variable", "type", lane === null ? "value, or range" : `lane ${lane}`, "histogram", ""], rows, [2]) : make("div", { class: "tsr-soft" }, "no variables yet"));
    vars.querySelectorAll("tbody tr").forEach((row, n) => row.classList.toggle("tsr-fresh", [...known].reverse()[n]?.[1].n === now));
    const chosen = variable !== null ? known.get(variable) : undefined;
    chosen ? showValues(chosen.of, chosen.n) : (values.replaceChildren(), valueGrid?.destroy(), (valueGrid = null));
  };
  const showValues = (of: Variable, n: number): void => {
    const found = of.values;
    if (!found) {
      values.replaceChildren(make("div", { class: "tsr-soft" }, `the values of ${of.name} in this tile are not part of the page`), context.channel ? button("load them", `load the values of ${of.name}`, () => void load(of, n)) : "");
      return;
    }
    const form = new Shape2(found.shape.length ? found.shape : [1]);
    const firstLane = tiles[tileNow()].lanes[0];
    const [low, high] = [of.stats.least ?? 0, of.stats.greatest ?? 1];
    const off = (place: number): boolean => of.exists !== null && !of.exists.data[place];
    const ink = rgba(getComputedStyle(root).color);
    const cells: Cells = {
      rows: form.rows, columns: form.columns,
      fill(row, column) {
        const place = form.element(0, row, column);
        if (place < 0) return null;
        const value = found.data[place];
        if (of.by_lane && lane === place + firstLane) return rgba("#ffb000", 170);
        return !Number.isFinite(value) ? rgba("#d03030", 150) : [ink[0], ink[1], ink[2], 8 + 80 * ((value - low) / (high - low || 1))];
      },
      hatch: (row, column) => { const place = form.element(0, row, column); return place >= 0 && off(place) ? "-" : place >= 0 && !Number.isFinite(found.data[place]) ? "x" : ""; },
      text: (row, column) => { const place = form.element(0, row, column); return place < 0 ? "" : shown(found.data[place]); },
    };
    const words = (row: number | null, column: number): string => {
      const place = row === null ? -1 : form.element(0, row, column);
      if (place < 0) return `${of.name}${of.stride.some((n) => n > 1) ? `: every ${of.stride.join(" x ")} of ${of.shape.join(" x ")} elements` : ""}, as line ${steps[n].line} left it`;
      const full = indices(place, found.shape).map((i, axis) => i * (of.stride[axis] ?? 1));
      return `${of.name}${of.by_lane ? ` of lane ${full[0] + firstLane}` : `[${full.join(", ")}]`} = ${shown(found.data[place])}${off(place) ? (of.by_lane ? " (lane not active)" : " (absent: outside the array)") : ""}`;
    };
    const events = {
      at: (row: number, column: number) => { const place = form.element(0, row, column); if (of.by_lane && place >= 0) setLane(place + firstLane); const text = words(row, column); valueSaid.textContent = text; say(text); },
      hover: (row: number | null, column: number) => void (valueSaid.textContent = words(row, column)),
      key: keys,
    };
    valueGrid?.destroy();
    valueGrid = new Grid(root, `values of ${of.name}: arrows move between them`, cells, events, 260, 44);
    valueSaid.textContent = words(null, 0);
    values.replaceChildren(valueGrid.canvas, valueSaid);
    valueGrid.show(cells);
  };
  const load = async (of: Variable, n: number): Promise<void> => {
    const reply = await context.channel!.ask({ type: "variable", tile: asked, step: n, name: of.name });
    if (reply.error) return say(reply.error);
    Object.assign(of, reply.variable);
    showVariables();
  };

  // -- controls ---------------------------------------------------------------------------------------------------
  const laneBox = make("input", { type: "number", placeholder: "all", "aria-label": "lane", min: 0, oninput: () => setLane(laneBox.value === "" ? null : Number(laneBox.value)) });
  const setLane = (next: number | null): void => {
    lane = next;
    laneBox.value = next === null ? "" : String(next);
    const warp = next === null ? "" : `lane ${next}, warp ${Math.floor(next / WARP)}: `;
    refresh();
    say(warp + told());
  };
  const tileButtons = tiles.map((tile, n) => make("button", { type: "button", role: "option", "aria-selected": "false", tabindex: -1, title: `tile ${tile.name}: ${uses(tile.reads, tile.writes, arrays)}`, onclick: () => toTile(n),
    onpointerenter: () => { preview = n; refresh(true); say(`tile ${tile.name}: ${uses(tile.reads, tile.writes, arrays)}`); }, onpointerleave: () => { preview = null; refresh(true); say(told()); } }, tile.name));
  const bar = make("div", { class: "tsr-tilebar", role: "listbox", "aria-label": "tiles", onkeydown: (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1, Home: -1e9, End: 1e9 }[event.key as string];
    if (by === undefined) return;
    toTile(tileNow() + by);
    tileButtons[tileNow()].focus();
    event.preventDefault();
  } }, ...tileButtons);
  const lineButtons = data.lines.map((text, n) => make("button", { type: "button", title: "click: choose as the line to run to", onclick: () => {
    target = target === data.first_line + n ? null : data.first_line + n;
    refresh();
    say(target === null ? told() : `line ${target} is chosen: run to it with r`);
    context.bus.select(target === null ? null : { lines: [target], label: `line ${target}` }, root);
  } }, make("i", {}, String(data.first_line + n)), text));
  const number = make("input", { type: "number", min: 0, max: data.total - 1, "aria-label": "number of another tile", placeholder: `0–${data.total - 1}` });
  const other = async (): Promise<void> => {
    const wanted = Number(number.value);
    const here = tiles.findIndex((tile) => tile.number === wanted);
    if (here >= 0) return toTile(here);
    say(`recording tile ${wanted} …`);
    const reply = await context.channel!.ask({ type: "tile", tile: wanted });
    reply.error ? say(reply.error) : replace(reply.data, wanted);
  };
  const live = context.channel && data.total > tiles.length ? [make("label", {}, "record tile ", number), button("go", "record another tile", () => void other())] : [];
  const key = (sign: string, hue: string, text: string): HTMLElement => make("span", { class: "tsr-legend" }, make("i", { class: hue ? null : "tsr-bare", style: hue ? `background:${hue}` : null }, sign), text);

  function refresh(marksOnly = false): void {
    const tile = preview ?? tileNow();
    for (const pane of panes) {
      mark(pane);
      pane.grid.show(cellsOf(pane));
      const does = [tiles[tile]?.reads[pane.array] && `reads ${tiles[tile].reads[pane.array]}`, tiles[tile]?.writes[pane.array] && `writes ${tiles[tile].writes[pane.array]}`].filter(Boolean);
      pane.said.textContent = does.join("; ") || (size(pane.known.shape) ? "not touched by this tile" : "has no elements");
    }
    if (marksOnly) return;
    slider.value = String(now);
    slider.setAttribute("aria-valuetext", told());
    where.textContent = `${now + 1} / ${steps.length}`;
    tileButtons.forEach((each, n) => { each.setAttribute("aria-selected", String(n === tileNow())); each.tabIndex = n === tileNow() ? 0 : -1; });
    tileButtons[tileNow()]?.scrollIntoView?.({ block: "nearest", inline: "nearest" });
    lineButtons.forEach((each, n) => {
      const line = data.first_line + n;
      each.classList.toggle("tsr-now", line === steps[now]?.line);
      each.classList.toggle("tsr-target", line === target);
      line === steps[now]?.line ? each.setAttribute("aria-current", "step") : each.removeAttribute("aria-current");
    });
    showVariables();
  }

  const used = arrays.map((_, n) => n).filter((n) => tiles.some((tile) => tile.reads[n] || tile.writes[n]));
  const sheet = table(["tile", "lanes", ...used.map((n) => arrays[n].name)], tiles.map((tile) => [tile.name, data.kind === "trip" ? "all" : `${tile.lanes[0]} to ${tile.lanes[1] - 1}`, ...used.map((n) => one(tile.reads[n], tile.writes[n]))]), [], "slices of each array that a tile reads and writes");
  holder.append(
    make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, data.title), make("span", { class: "tsr-pill" }, `${plural(data.total, "tile")}: ${data.kind === "trip" ? "trips of the loops over tiles" : data.kind === "group" ? "groups" : `blocks of ${data.lanes} lanes`}`),
      make("span", { class: "tsr-grow" }), key("R", READ, "read"), key("W", WRITTEN, "written"), key("B", BOTH, "both"), key("×", "", "masked off")),
    ...data.findings.map((text) => make("div", { class: "tsr-note tsr-m", role: "alert" }, make("b", {}, text))),
    ...data.left_out.map((text) => make("div", { class: "tsr-note" }, text)),
    make("div", { class: "tsr-bar" }, make("span", { class: "tsr-soft" }, "tile"), bar, ...live),
    make("div", { class: "tsr-bar", role: "toolbar", "aria-label": "debugger", onkeydown: (event) => { if (event.target !== laneBox && event.target !== number && keys(event)) event.preventDefault(); } },
      button("◀", "previous statement (p, Page Up)", () => step(-1)), button("▶", "next statement (n, Page Down)", () => step(1)),
      button("◀ trip", "previous trip of the loop (L)", () => trip(-1)), button("trip ▶", "next trip of the loop (l)", () => trip(1)),
      button("run to line", "run to the line chosen (r)", runTo), slider, where, make("label", {}, "lane ", laneBox)),
    make("div", { class: "tsr-tiles" },
      make("div", {}, make("div", { class: "tsr-tilelines", role: "group", "aria-label": "source", onkeydown: (event) => { if (keys(event)) event.preventDefault(); } }, ...lineButtons), vars, values),
      make("div", { class: "tsr-arrays tsr-room" }, ...boxes)),
    status,
    make("details", {}, make("summary", {}, "as a table"), make("div", { class: "tsr-scroll", tabindex: 0 }, sheet)),
  );
  const point = (pane: (typeof panes)[number], element: number): void => {
    const [slice, row, column] = pane.form.place(element);
    pane.slice = slice;
    cursor = { array: pane.array, element };
    pane.grid.point(row, column);
    say(describe(pane, element));
  };
  const hear = (selection: Selection | null): void => {
    if (!selection) return;
    const wanted = selection.elements?.[0];
    const pane = wanted && panes.find((each) => each.known.name === wanted.array);
    if (wanted && pane) return point(pane, wanted.place.reduce((sum, n, axis) => sum * pane.known.shape[axis] + n, 0));
    const tile = selection.tiles?.length ? tiles.findIndex((each) => selection.tiles!.includes(each.number)) : -1;
    const line = selection.lines?.find((each) => steps.some((step) => step.line === each));
    const place = steps.findIndex((step) => (tile < 0 || step.tile === tile) && (line === undefined || step.line === line));
    if (tile >= 0 || line !== undefined) go(place >= 0 ? place : byTile[tile]?.[0] ?? now, true);
    else if (selection.tiles?.length || selection.lines?.length) say("no counterpart among the tiles recorded");
  };
  const stop = context.bus.subscribe(root, hear);
  refresh();
  say(told());
  const wrong = data.focus && panes.find((each) => each.array === data.focus!.array);
  if (wrong) point(wrong, data.focus!.element);
  return {
    themed: () => refresh(true),
    destroy: () => { stop(); panes.forEach((pane) => pane.grid.destroy()); valueGrid?.destroy(); },
  };
}

/** A launch of which no statement ran: the kernel, and why there is nothing to step through. */
function nothing(holder: HTMLElement, data: Payload) {
  const lines = data.lines.map((text, n) => make("div", {}, make("i", {}, String(data.first_line + n)), text));
  holder.append(
    make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, data.title)),
    ...data.left_out.map((text) => make("div", { class: "tsr-note" }, text)),
    make("div", { class: "tsr-tilelines", role: "group", "aria-label": "source" }, ...lines),
  );
  return { themed: () => {}, destroy: () => {} };
}

const tripsOf = (trips: [string, number | null, number][]): string[] => trips.filter(([name]) => name).map(([name, index, number]) => `${name}=${index ?? `trip ${number}`}`);

function extent(values: Float64Array | null): [number, number] | null {
  if (!values) return null;
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) if (Number.isFinite(value)) (low = Math.min(low, value)), (high = Math.max(high, value));
  return low <= high ? [low, high] : [0, 1];
}

const one = (reads: string, writes: string): string => (reads && reads === writes ? `reads and writes ${reads}` : [reads && `reads ${reads}`, writes && `writes ${writes}`].filter(Boolean).join("; "));
const uses = (reads: string[], writes: string[], arrays: ArrayData[]): string => arrays.map((array, n) => [reads[n] && `reads ${array.name}${reads[n]}`, writes[n] && `writes ${array.name}${writes[n]}`].filter(Boolean).join("; ")).filter(Boolean).join("; ") || "touches nothing";

register("tiles", mount, style);
