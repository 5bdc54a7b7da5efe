// The list of rows, of which only those in sight are elements, and the lines that join what moved.
import { make, paintExact, svg } from "../core";
import { items, shown, type Change, type Comparison, type Item, type Wanted } from "./model";

const HEIGHT = 18;
const MIDDLE = 34; // width of the column between the sides, as in diff.css
const BEYOND = 12; // rows drawn above and below what is in sight

export interface Told {
  /** A row was chosen: its change or none, and the lines it stands for. */
  chosen(change: Change | null, lines: number[], ops: number[], words: string): void;
  /** How many changes there are to go through, and which of them the last jump was to. */
  stepped(number: number, count: number): void;
}

export class Pane {
  readonly element: HTMLElement;
  unified = false;
  language = "";
  /** whether each line says how many instructions its operations became */
  counting = false;
  private readonly list: HTMLElement;
  private readonly space: HTMLElement;
  private readonly drawnRows: HTMLElement;
  private readonly lines: SVGSVGElement;
  private readonly side: HTMLElement;
  private comparison!: Comparison;
  private visible: boolean[] = [];
  private items: Item[] = [];
  private open = new Set<number>();
  private current = -1;
  private marked = new Set<string>();
  private steps: { change: number; item: number }[] = [];
  private step = -1;
  private waiting = false;
  /** Rows that are elements, and whether these are to be made anew. */
  private drawn: [number, number] = [0, 0];
  private anew = false;
  private painted = new Map<string, string>();
  private joined: { from: number; to: number; path: string; kind: string }[] = [];
  private readonly prefix = `tsr-diff-${Math.random().toString(36).slice(2)}`;

  constructor(private signs: Record<string, string>, private told: Told, label: string) {
    this.lines = svg("svg", { class: "tsr-d-joins", "aria-hidden": "true" });
    this.drawnRows = make("div", { class: "tsr-d-rows", role: "presentation" });
    this.space = make("div", { class: "tsr-d-space", role: "presentation" }, this.drawnRows, this.lines);
    this.list = make("div", { class: "tsr-d-list", role: "listbox", tabindex: 0, "aria-label": label, onscroll: () => this.soon(false), onkeydown: (event) => this.key(event), onclick: (event) => this.click(event) }, this.space);
    const wide = make("div", {});
    this.side = make("div", { class: "tsr-d-sideways", tabindex: 0, role: "group", "aria-label": "scroll sideways", onscroll: () => this.list.style.setProperty("--x", `${-this.side.scrollLeft}px`) }, wide);
    this.list.addEventListener("wheel", (event) => {
      const by = event.shiftKey ? event.deltaY : event.deltaX;
      if (!by) return;
      this.side.scrollLeft += by;
      event.preventDefault();
    }, { passive: false });
    this.element = make("div", { class: "tsr-d-pane" }, this.list, this.side);
    new ResizeObserver(() => this.soon(false)).observe(this.list);
  }

  /** Show a comparison, or the same one otherwise. */
  show(comparison: Comparison, wanted: Wanted): void {
    const other = comparison !== this.comparison, first = this.comparison === undefined;
    this.comparison = comparison;
    this.visible = comparison.changes.map((change) => shown(change, wanted));
    if (other) {
      this.open.clear();
      this.current = this.step = -1;
      this.marked.clear();
      this.painted.clear();
      const longest = Math.max(1, ...comparison.sides.map((lines) => lines.reduce((most, line) => Math.max(most, line.text.length), 0)));
      (this.side.firstChild as HTMLElement).style.width = `calc(50% + ${longest + 8}ch)`;
    }
    this.lay();
    if (other && !first) this.list.scrollTop = 0;
  }

  /** Lay rows out anew: another layout, other folds, other filters. */
  lay(): void {
    this.list.classList.toggle("tsr-d-unified", this.unified);
    this.items = items(this.comparison, this.visible, this.unified, this.open);
    const first = new Map<number, number>();
    this.items.forEach((item, at) => {
      if (item.fold) return;
      const row = this.comparison.rows[item.row];
      for (const change of item.side === 2 ? [row[2], row[3]] : [row[2 + item.side]])
        if (change >= 0 && this.visible[change] && !first.has(change)) first.set(change, at);
    });
    this.steps = [...first].map(([change, item]) => ({ change, item }));
    if (this.current >= this.items.length) this.current = -1;
    this.step = Math.min(this.step, this.steps.length - 1);
    this.space.style.height = `${this.items.length * HEIGHT}px`;
    this.joined = this.joins();
    this.told.stepped(this.step, this.steps.length);
    this.draw();
  }

  countOf(kind: string): number {
    return this.comparison.changes.filter((change, at) => this.visible[at] && change.kind === kind).length;
  }

  /** Go to the next (1) or the previous (-1) change, from the row that was chosen last. */
  go(by: number): void {
    const count = this.steps.length;
    if (!count) return;
    if (this.current >= 0 && this.steps[this.step]?.item !== this.current) {
      const after = this.steps.findIndex(({ item }) => item > this.current);
      const before = this.steps.filter(({ item }) => item < this.current).length;
      return this.jump(by > 0 ? Math.max(0, after) : (before - 1 + count) % count);
    }
    this.jump((this.step + by + count + (this.step < 0 && by < 0 ? 1 : 0)) % count);
  }

  /** Go to a change by its number in the comparison. */
  reveal(change: number): void {
    const at = this.steps.findIndex((each) => each.change === change);
    if (at >= 0) this.jump(at);
  }

  private jump(step: number): void {
    this.step = step;
    this.told.stepped(step, this.steps.length);
    this.choose(this.steps[step].item, this.steps[step].change);
  }

  /** Mark lines that are counterparts of a selection; returns how many there are on each side. */
  mark(ops: Set<number>, lines: Set<number>): [number, number] {
    this.marked.clear();
    const counts: [number, number] = [0, 0];
    this.comparison.sides.forEach((side, which) => side.forEach((line, at) => {
      const same = ops.size && line.ops.length ? line.ops.some((op) => ops.has(op)) : line.lines.some((each) => lines.has(each));
      if (!same) return;
      this.marked.add(`${which}.${at}`);
      counts[which]++;
    }));
    this.soon();
    return counts;
  }

  private choose(item: number, change = -1): void {
    this.current = item;
    const top = item * HEIGHT;
    const box = this.list;
    if (top < box.scrollTop + HEIGHT || top > box.scrollTop + box.clientHeight - 2 * HEIGHT) box.scrollTop = Math.max(0, top - box.clientHeight / 3);
    const { row, side, fold } = this.items[item];
    const [i, j, a, b] = this.comparison.rows[row];
    if (!fold) {
      const found = change >= 0 ? change : side === 0 ? a : b >= 0 ? b : side === 2 ? a : -1;
      const line = (side !== 0 && j >= 0 ? this.comparison.sides[1][j] : undefined) ?? this.comparison.sides[0][i];
      const one = found >= 0 && this.visible[found] ? this.comparison.changes[found] : null;
      const where = [i >= 0 && side !== 1 ? `line ${i + 1} before` : "", j >= 0 && side !== 0 ? `line ${j + 1} after` : ""].filter(Boolean).join(", ");
      this.told.chosen(one, line.lines, line.ops, `${where}: ${one ? `${one.kind}, ${one.words}` : i < 0 ? "only after" : j < 0 ? "only before" : "unchanged"}`);
      this.mark(new Set(line.ops), new Set(line.lines));
    }
    this.soon();
  }

  private unfold(item: number): void {
    this.open.add(this.items[item].row);
    this.lay();
  }

  private click(event: MouseEvent): void {
    const row = (event.target as HTMLElement).closest<HTMLElement>("[data-item]");
    if (!row) return;
    const item = Number(row.dataset.item);
    if (this.items[item].fold) this.unfold(item);
    else this.choose(item);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.list.clientHeight / HEIGHT) - 2);
    const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in moves) this.choose(Math.max(0, Math.min(this.items.length - 1, this.current + moves[event.key])));
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") this.side.scrollLeft += event.key === "ArrowRight" ? 40 : -40;
    else if ((event.key === "Enter" || event.key === " ") && this.current >= 0 && this.items[this.current].fold) this.unfold(this.current);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Draw before the next frame, once however often it is asked for; `anew`: also the rows that are there. */
  private soon(anew = true): void {
    this.anew ||= anew;
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw(this.anew);
    });
  }

  /** Draw the rows in sight, if these are others than before. */
  private draw(anew = true): void {
    if (!this.comparison) return;
    const first = Math.floor(this.list.scrollTop / HEIGHT), last = Math.min(this.items.length, first + Math.ceil(this.list.clientHeight / HEIGHT) + 1);
    if (!anew && first >= this.drawn[0] && last <= this.drawn[1]) return;
    const [from, to] = (this.drawn = [Math.max(0, first - BEYOND), Math.min(this.items.length, last + BEYOND)]);
    this.anew = false;
    const parts: string[] = [];
    for (let at = from; at < to; at++) parts.push(this.row(at));
    this.drawnRows.style.transform = `translateY(${from * HEIGHT}px)`;
    this.drawnRows.innerHTML = parts.join("");
    if (this.current >= from && this.current < to) this.list.setAttribute("aria-activedescendant", `${this.prefix}-${this.current}`);
    else this.list.removeAttribute("aria-activedescendant");
    const inSight = this.joined.filter((join) => join.to >= from && join.from <= to);
    this.lines.replaceChildren(...inSight.map((join) => svg("path", { d: join.path, class: `tsr-d-join tsr-k-${join.kind}` })));
  }

  private row(at: number): string {
    const { row, side, fold } = this.items[at];
    const head = `id="${this.prefix}-${at}" data-item="${at}" role="option" aria-selected="${at === this.current}"`;
    if (fold) return `<div ${head} class="tsr-d-row tsr-d-fold" style="height:${HEIGHT}px"><span>⋯ ${fold.toLocaleString("en")} unchanged lines</span></div>`;
    const [i, j, a, b] = this.comparison.rows[row];
    const cells: string[] = [];
    const [old, now] = this.comparison.sides;
    const was = i >= 0 && j >= 0 ? old[i].count : 0;
    const by = j >= 0 && was ? now[j].count - was : 0;
    if (this.unified) cells.push(side === 0 ? this.cell(0, i, a, j < 0 || a !== b, 0, j >= 0) : this.cell(1, j, b, i < 0 || a !== b, by, this.items[at - 1]?.row === row));
    else cells.push(this.cell(0, i, a, j < 0), `<span class="tsr-d-mid"></span>`, this.cell(1, j, b, i < 0, by));
    return `<div ${head} class="tsr-d-row" style="height:${HEIGHT}px">${cells.join("")}</div>`;
  }

  private count(side: number, line: number, by: number): string {
    if (!this.counting) return "";
    const { count } = this.comparison.sides[side][line];
    const delta = by ? ` <b class="${by < 0 ? "tsr-p" : "tsr-m"}">${by < 0 ? "−" : "+"}${Math.abs(by)}</b>` : "";
    return `<span class="tsr-d-count" title="instructions of the machine code">${count || ""}${delta}</span>`;
  }

  private paint(side: number, line: number, text: string, marks: [number, number][]): string {
    const key = `${side}.${line}.${marks.length}`;
    const known = this.painted.get(key);
    if (known !== undefined) return known;
    const html = paintExact(text, this.language, marks);
    this.painted.set(key, html);
    return html;
  }

  private cell(side: number, line: number, change: number, alone: boolean, by = 0, twice = false): string {
    if (line < 0) return `<span class="tsr-d-cell tsr-d-none"></span>`;
    const one = change >= 0 && this.visible[change] ? this.comparison.changes[change] : null;
    const kind = one?.kind ?? (alone && change < 0 ? (side ? "added" : "removed") : "");
    const sign = one ? this.signs[one.kind] + (twice ? (side ? "+" : "-") : one.moved && one.kind !== "moved" ? this.signs.moved : "") : kind ? (side ? "+" : "-") : "";
    const text = this.comparison.sides[side][line].text;
    const marks = one && one.sides[side][0] === line ? one.marks[side] : [];
    const on = this.marked.has(`${side}.${line}`) ? " tsr-on" : "";
    const spoken = kind ? `<span class="tsr-spoken">${kind}</span>` : "";
    return `<span class="tsr-d-cell${kind ? ` tsr-k-${kind}` : ""}${on}"><span class="tsr-d-no">${line + 1}</span><span class="tsr-d-sign">${sign}</span>${spoken}${this.count(side, line, by)}<span class="tsr-d-code"><span>${this.paint(side, line, text, marks)}</span></span></span>`;
  }

  /** Join what moved, was split or fused and is not on one row; in coordinates of the column in the middle. */
  private joins(): Pane["joined"] {
    const found: Pane["joined"] = [];
    if (this.unified) return found;
    const at: [Map<number, number>, Map<number, number>] = [new Map(), new Map()];
    this.items.forEach((item, place) => {
      if (item.fold) return;
      const row = this.comparison.rows[item.row];
      if (row[0] >= 0) at[0].set(row[0], place);
      if (row[1] >= 0) at[1].set(row[1], place);
    });
    this.comparison.changes.forEach((change, number) => {
      if (!this.visible[number]) return;
      const many = change.kind === "split" || change.kind === "fused";
      for (const i of change.sides[0].slice(0, change.kind === "fused" ? undefined : 1))
        for (const j of change.sides[1].slice(0, change.kind === "split" ? undefined : 1)) {
          const [y, z] = [at[0].get(i), at[1].get(j)];
          if (y === undefined || z === undefined || (y === z && !many)) continue;
          const [a, b] = [(y + 0.5) * HEIGHT, (z + 0.5) * HEIGHT];
          found.push({ from: Math.min(y, z), to: Math.max(y, z), path: `M0 ${a} C20 ${a} 14 ${b} ${MIDDLE} ${b}`, kind: change.kind });
        }
    });
    return found;
  }
}
