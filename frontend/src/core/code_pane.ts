// A scrolling text of any length: rows of one height, of which only those in sight are elements.
//
// The rows are a listbox: one element has the focus, and `aria-activedescendant` names the row that the keys are on.
// Whatever is shown beside the text (where a line comes from, live registers, arrows) is a gutter that the view gives.

import { escape, make } from "./dom";
import { paint, paintExact } from "./highlight";

export const ROW = 18;
const AROUND = 8;
const TICKS = 300;
const TAB = 4;
const SIGNS: Record<string, [kind: string, sign: string]> = {
  "+": ["p", "+"], "~": ["c", "~"], ">": ["c", "↕"], "-": ["m", "−"], "−": ["m", "−"],
};

/** A column beside the text.  `html` is what stands there for a line: of the view's own making, so escaped by it. */
export interface Gutter {
  name: string;
  width: string;
  html(line: number): string;
}

/** A text and what is known of its lines, which are numbered from 0. */
export interface CodeText {
  /** "source" or a level: how words are coloured */
  language: string;
  lines: readonly string[];
  /** number of the first line; or what is shown in place of each number */
  first?: number;
  number?(line: number): string;
  /** lines that are no more, each above the line `before` which it stood */
  gone?: readonly (readonly [before: number, text: string])[];
  /** regions that can be folded: the line that stays, and the last one that goes */
  folds?: readonly (readonly [head: number, last: number])[];
  /** whether the filter leaves a line out */
  quiet?(line: number): boolean;
  /** "+", "~", ">" or "-": what happened to a line; undefined: no column for it */
  sign?: ((line: number) => string) | undefined;
  /** further classes of a row, its tooltip, and the colour of the bar beside it */
  kind?(line: number): string;
  title?(line: number): string;
  hue?(line: number): string;
  gutters?: readonly Gutter[];
}

export interface CodeEvents {
  /** A line was chosen: clicked, or Enter. */
  choose(line: number, pane: CodePane): void;
  /** The keys went to a line. */
  move?(line: number, pane: CodePane): void;
  /** The pointer is over a line (null: over none), at an element of its row. */
  hover?(line: number | null, at: HTMLElement | null, pane: CodePane): void;
  /** A key that the pane has no use for; true: it was used. */
  key?(event: KeyboardEvent, pane: CodePane): boolean;
}

/** Panes that have something to draw: all of them scroll before the first draws, so that the browser lays out once. */
const due = new Set<CodePane>();
function settle(): void {
  const now = [...due].filter((pane) => !pane.away);
  due.clear();
  for (const pane of now) pane.scrollToWanted();
  for (const pane of now) pane.catchUp();
}

let panes = 0;
let character = 0;

/** Width of a character, which all have: measured once a page. */
function characterWidth(near: HTMLElement): number {
  if (character) return character;
  const probe = make("span", { style: "position:absolute;visibility:hidden;white-space:pre" }, "0".repeat(100));
  near.append(probe);
  character = probe.getBoundingClientRect().width / 100;
  probe.remove();
  return character || 7.2;
}

const columnsOf = (text: string): number => {
  if (!text.includes("\t")) return text.length;
  let column = 0;
  for (const char of text) column += char === "\t" ? TAB - (column % TAB) : 1;
  return column;
};

export class CodePane {
  readonly box: HTMLElement;
  readonly node: HTMLElement;
  /** The line that the keys are on. */
  current = 0;
  private readonly id = `tsr-c${++panes}`;
  private readonly space = make("div", { class: "tsr-space", role: "presentation" });
  private readonly window = make("div", { class: "tsr-rows", role: "presentation" });
  private readonly ruler = make("div", { class: "tsr-ruler", "aria-hidden": "true" });
  private readonly watch: ResizeObserver;
  private text!: CodeText;
  /** What each row is: a line, or ~n for the n-th line that is gone. */
  private rows = new Int32Array(0);
  /** Where each row begins, in heights of a row; one more for the end. */
  private tops = new Int32Array(1);
  /** The row of each line; of one that is hidden, the row above. */
  private rowOf = new Int32Array(0);
  private hiddenLines = 0;
  private folded = new Set<number>();
  private foldOf = new Map<number, number>();
  private signed = false;
  private marks: Uint8Array | null = null;
  private own = -1;
  private hits: Uint8Array | null = null;
  private places = new Map<number, [number, number][]>();
  private shown: [number, number] = [-1, -1];
  /** Height and scroll position of the box, kept so that no draw waits for the browser's layout. */
  private tall = 0;
  private top = 0;
  private anew = false;
  /** Out of sight, as panes of other levels or outputs further up often are: it is drawn when it comes into sight. */
  away = false;
  private readonly sight: IntersectionObserver;
  private wanted = -1;
  private columns = 0;
  private wrapped = false;
  private filtered = true;

  constructor(label: string, private readonly events: CodeEvents, text: CodeText, name = "") {
    this.box = make("div", { class: `tsr-text ${name}`, role: "listbox", tabindex: 0, "aria-label": label,
      onscroll: () => {
        this.top = this.box.scrollTop;
        this.draw();
      },
      onclick: (event: MouseEvent) => this.clicked(event),
      onkeydown: (event: KeyboardEvent) => this.pressed(event),
      onmouseover: (event: MouseEvent) => this.hovered(event),
      onmouseleave: () => events.hover?.(null, null, this),
    }, this.space);
    this.space.append(this.window);
    this.node = make("div", { class: "tsr-hold" }, this.box, this.ruler);
    this.watch = new ResizeObserver(() => {
      this.tall = this.box.clientHeight;
      if (this.wanted >= 0) this.soon(); // a new pane has no height to scroll in before
      if (this.wrapped) this.arrange();
      else this.draw();
      this.drawRuler();
    });
    this.watch.observe(this.box);
    this.sight = new IntersectionObserver((seen) => {
      const late = this.away;
      this.away = !seen.at(-1)!.isIntersecting;
      if (late && !this.away) this.soon();
    });
    this.sight.observe(this.box);
    this.show(text);
  }

  destroy(): void {
    this.watch.disconnect();
    this.sight.disconnect();
  }

  /** Show another text; marks, hits and folds go with the old one. */
  show(text: CodeText): void {
    this.text = text;
    this.folded.clear();
    this.foldOf = new Map(text.folds?.map(([head, last]) => [head, last]));
    this.marks = this.hits = null;
    this.own = this.wanted = -1;
    this.places = new Map();
    this.current = Math.min(this.current, Math.max(0, text.lines.length - 1));
    // A column of signs only where there is a sign.
    this.signed = !!text.gone?.length || (!!text.sign && text.lines.some((_, line) => (text.sign!(line) || " ") !== " "));
    this.arrange();
  }

  get lines(): readonly string[] {
    return this.text.lines;
  }

  /** Lines that the filter leaves out. */
  get hidden(): number {
    return this.hiddenLines;
  }

  get wrap(): boolean {
    return this.wrapped;
  }

  set wrap(value: boolean) {
    if (value === this.wrapped) return;
    this.wrapped = value;
    this.keepPlace(() => this.arrange());
  }

  get filter(): boolean {
    return this.filtered;
  }

  set filter(value: boolean) {
    if (value === this.filtered) return;
    this.filtered = value;
    this.keepPlace(() => this.arrange());
  }

  /** Mark lines; `own` is the one that was chosen (null: chosen elsewhere, so the first mark is brought into sight). */
  mark(on: Uint8Array | null, own: number | null = null, reveal = true): void {
    this.marks = on;
    this.own = own ?? -1;
    this.wanted = on && own === null && reveal ? on.indexOf(1) : -1;
    this.soon();
  }

  /** Underline what a search found. */
  find(hits: Uint8Array | null): void {
    this.hits = hits;
    this.soon();
  }

  /** Underlay places in lines: [first character, character past the end], from 0. */
  exact(places: Map<number, [number, number][]>): void {
    this.anew ||= places.size > 0 || this.places.size > 0;
    this.places = places;
    this.soon();
  }

  /** Draw once for all that changes now, in this pane and in others. */
  private soon(): void {
    if (!due.size) queueMicrotask(settle);
    due.add(this);
  }

  /** Scroll to what was asked for. */
  scrollToWanted(): void {
    if (this.wanted < 0 || !this.tall) return;
    this.unfoldAround(this.wanted);
    this.bring(this.wanted);
    this.wanted = -1;
  }

  /** Draw what was asked for since the last time. */
  catchUp(): void {
    if (this.anew || this.folded.size) this.draw(true);
    else if (!this.draw()) this.restyle();
    this.anew = false;
    this.drawRuler();
  }

  /** Mark the rows that are there: far cheaper than making them anew. */
  private restyle(): void {
    for (const row of this.window.children as HTMLCollectionOf<HTMLElement>) {
      if (row.dataset.i === undefined) continue;
      const line = Number(row.dataset.i);
      row.className = this.classes(line);
      row.setAttribute("aria-selected", String(!!this.marks?.[line]));
    }
  }

  private classes(line: number): string {
    const on = this.marks?.[line];
    return `tsr-row${on ? (line === this.own ? " tsr-on tsr-me" : " tsr-on") : ""}${this.hits?.[line] ? " tsr-hit" : ""}${line === this.current ? " tsr-current" : ""} ${this.text.kind?.(line) ?? ""}`.trimEnd();
  }

  /** Draw again what gutters, signs and classes say. */
  refresh(): void {
    this.draw(true);
  }

  /** Move the keys to a line. */
  goTo(line: number, focus = false): void {
    this.unfoldAround(line);
    this.current = line;
    this.reveal(line);
    this.draw(true);
    if (focus) this.box.focus({ preventScroll: true });
    this.events.move?.(line, this);
  }

  /** Scroll a line into sight, unfolding what it is in. */
  reveal(line: number): void {
    this.unfoldAround(line);
    this.bring(line);
    this.draw();
  }

  private bring(line: number): void {
    const top = this.tops[this.rowOf[line]] * ROW;
    if (top < this.top + ROW || top > this.top + this.tall - 2 * ROW) this.scroll(top - this.tall / 3);
  }

  /** Go to the next mark or hit below or above, around the end. */
  walk(step: number, hitsOnly = false): void {
    const count = this.text.lines.length;
    for (let i = 1; i <= count; i++) {
      const line = (((this.current + i * step) % count) + count) % count;
      if ((!hitsOnly && this.marks?.[line]) || this.hits?.[line]) {
        this.goTo(line);
        return;
      }
    }
  }

  fold(line: number, fold = !this.folded.has(line)): void {
    if (!this.foldOf.has(line)) return;
    if (fold) this.folded.add(line);
    else this.folded.delete(line);
    this.keepPlace(() => this.arrange());
  }

  foldAll(fold: boolean): void {
    this.folded = new Set(fold ? this.foldOf.keys() : []);
    if (fold) this.current = this.headOf(this.current);
    this.keepPlace(() => this.arrange());
  }

  /** The outermost folded line that hides `line`, or the line itself. */
  private headOf(line: number): number {
    for (const head of this.folded) if (head < line && line <= this.foldOf.get(head)!) line = head;
    return line;
  }

  private unfoldAround(line: number): void {
    let changed = false;
    for (const head of this.folded) if (head < line && line <= this.foldOf.get(head)!) changed = this.folded.delete(head) || changed;
    if (changed) this.arrange();
  }

  private scroll(top: number): void {
    // Not read back: that would wait for the browser's layout.  Where it is another, the scroll event says so.
    this.top = this.tall ? Math.max(0, Math.min(top, this.tops[this.rows.length] * ROW - this.tall)) : 0;
    this.box.scrollTop = this.top;
  }

  private keepPlace(change: () => void): void {
    const before = this.tops[this.rowOf[this.current]] * ROW - this.top;
    change();
    this.scroll(this.tops[this.rowOf[this.current]] * ROW - before);
    this.draw();
  }

  /** Decide which rows there are and where each begins. */
  private arrange(): void {
    const { lines, gone = [], quiet } = this.text;
    const rows = new Int32Array(lines.length + gone.length);
    const rowOf = new Int32Array(lines.length);
    let count = 0;
    let at = 0;
    let until = -1;
    let longest = 0;
    this.hiddenLines = 0;
    for (let line = 0; line <= lines.length; line++) {
      for (; at < gone.length && gone[at][0] <= line; at++) if (line > until) rows[count++] = ~at;
      if (line === lines.length) break;
      const left = quiet !== undefined && quiet(line);
      if (left) this.hiddenLines++;
      if (line > until && !(left && this.filtered)) {
        rowOf[line] = count;
        rows[count++] = line;
        longest = Math.max(longest, lines[line].length);
        if (this.folded.has(line)) until = this.foldOf.get(line)!;
      } else rowOf[line] = Math.max(0, count - 1);
    }
    this.rows = rows.subarray(0, count);
    this.rowOf = rowOf;
    this.measure(longest);
    this.space.style.height = `${this.tops[count] * ROW}px`;
    this.draw(true);
    this.drawRuler();
  }

  private measure(longest: number): void {
    const count = this.rows.length;
    const tops = new Int32Array(count + 1);
    const width = characterWidth(this.box);
    this.columns = 0;
    if (this.wrapped && this.box.clientWidth) {
      const code = this.window.querySelector<HTMLElement>(".tsr-code");
      this.columns = Math.max(20, Math.floor((this.box.clientWidth - (code?.offsetLeft ?? 100) - 14) / width));
    }
    for (let row = 0; row < count; row++) {
      const text = this.columns ? this.textOf(row) : "";
      tops[row + 1] = tops[row] + Math.max(1, this.columns ? Math.ceil(columnsOf(text) / this.columns) : 1);
    }
    this.tops = tops;
    this.box.classList.toggle("tsr-wrap", this.columns > 0);
    this.box.style.setProperty("--columns", String(this.columns));
    this.space.style.minWidth = this.columns ? "" : `calc(${longest}ch + 12ch)`;
  }

  private textOf(row: number): string {
    const line = this.rows[row];
    return line < 0 ? this.text.gone![~line][1] : this.text.lines[line];
  }

  private rowAt(height: number): number {
    let [low, high] = [0, this.rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] <= height) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Make the elements of the rows in sight, if these are others than before; return whether they are. */
  private draw(again = false): boolean {
    const top = this.top / ROW;
    const first = this.rowAt(Math.floor(top));
    const end = Math.min(this.rows.length, this.rowAt(Math.ceil(top + (this.tall || 600) / ROW)) + 1);
    if (!again && first >= this.shown[0] && end <= this.shown[1]) return false;
    const [from, to] = [Math.max(0, first - AROUND), Math.min(this.rows.length, end + AROUND)];
    this.shown = [from, to];
    let html = "";
    for (let row = from; row < to; row++) html += this.row(row);
    this.window.style.transform = `translateY(${this.tops[from] * ROW}px)`;
    this.window.innerHTML = html;
    const active = this.rowOf[this.current] >= from && this.rowOf[this.current] < to && this.text.lines.length > 0;
    if (active) this.box.setAttribute("aria-activedescendant", `${this.id}-${this.rows[this.rowOf[this.current]]}`);
    else this.box.removeAttribute("aria-activedescendant");
    return true;
  }

  private row(row: number): string {
    const { text } = this;
    const line = this.rows[row];
    const tall = this.tops[row + 1] - this.tops[row];
    const size = tall > 1 ? `height:${tall * ROW}px;` : "";
    const gutters = text.gutters ?? [];
    if (line < 0) {
      const old = this.textOf(row);
      const indent = old.length - old.trimStart().length;
      const empty = gutters.map((gutter) => `<span class="tsr-g" style="width:${gutter.width}"></span>`).join("");
      return `<div class="tsr-row tsr-gone" role="presentation" style="${size}" title="taken away"><span class="tsr-n"></span><span class="tsr-sign tsr-m">−</span>${empty}<span class="tsr-fold"></span><span class="tsr-code">${escape(old.slice(0, indent))}<del>${escape(old.slice(indent))}</del></span></div>`;
    }
    const on = !!this.marks?.[line];
    const last = this.foldOf.get(line);
    const folded = this.folded.has(line);
    const classes = this.classes(line);
    const sign = SIGNS[text.sign?.(line) ?? ""];
    const signs = this.signed ? `<span class="tsr-sign${sign ? ` tsr-${sign[0]}` : ""}">${sign ? sign[1] : ""}</span>` : "";
    const beside = gutters.map((gutter) => `<span class="tsr-g tsr-g-${gutter.name}" style="width:${gutter.width}">${gutter.html(line)}</span>`).join("");
    const fold = last === undefined ? "" : folded ? "▸" : "▾";
    const hue = text.hue?.(line);
    const places = this.places.get(line);
    const code = places ? paintExact(text.lines[line], text.language, places) : paint(text.lines[line], text.language);
    const inside = folded ? `<span class="tsr-more">⋯ ${last! - line} lines${this.within(line, last!)}</span>` : "";
    const title = text.title?.(line);
    return `<div class="${classes}" role="option" id="${this.id}-${line}" aria-selected="${on}" aria-posinset="${line + 1}" aria-setsize="${text.lines.length}" data-i="${line}"${title ? ` title="${escape(title)}"` : ""} style="${size}${hue ? `--hue:${hue}` : ""}"><span class="tsr-n">${text.number ? escape(text.number(line)) : line + (text.first ?? 1)}</span>${signs}${beside}<span class="tsr-fold">${fold}</span><span class="tsr-code">${code}${inside}</span></div>`;
  }

  private within(line: number, last: number): string {
    let marks = 0;
    for (let i = line + 1; i <= last; i++) marks += this.marks?.[i] || this.hits?.[i] ? 1 : 0;
    return marks ? `, ${marks} marked` : "";
  }

  /** The ruler maps the whole text to the height of the box, once the text is taller than it. */
  private drawRuler(): void {
    const count = this.text.lines.length;
    const runs: [number, number][] = [];
    const gap = 1 + Math.ceil(count / TICKS);
    for (let line = 0; line < count; line++) {
      if (!this.marks?.[line] && !this.hits?.[line]) continue;
      const row = this.rowOf[line];
      const last = runs.at(-1);
      if (last && row - last[1] <= gap) last[1] = row;
      else runs.push([row, row]);
    }
    const tall = Math.max(this.tops[this.rows.length] * ROW, this.tall, 1);
    const share = (rows: number): number => (100 * rows * ROW) / tall;
    this.ruler.replaceChildren(...runs.map(([from, to]) =>
      make("i", { style: `top:${share(this.tops[from])}%;height:max(3px, ${share(this.tops[to + 1] - this.tops[from])}%)` })));
  }

  private clicked(event: MouseEvent): void {
    const at = event.target as HTMLElement;
    const row = at.closest<HTMLElement>("[data-i]");
    if (!row) return;
    const line = Number(row.dataset.i);
    if (at.closest(".tsr-fold") && this.foldOf.has(line)) {
      this.current = line;
      this.fold(line);
      return;
    }
    if (String(document.getSelection())) return;
    this.current = line;
    this.box.focus({ preventScroll: true });
    this.events.move?.(line, this);
    this.events.choose(line, this);
  }

  private hovered(event: MouseEvent): void {
    const at = event.target as HTMLElement;
    const row = at.closest<HTMLElement>("[data-i]");
    this.events.hover?.(row ? Number(row.dataset.i) : null, row ? at : null, this);
  }

  private pressed(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.tall / ROW) - 2);
    const step = ({ ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity } as Record<string, number>)[event.key];
    if (step !== undefined) this.step(step);
    else if (event.key === "Enter" || event.key === " ") this.events.choose(this.current, this);
    else if (event.key === "n" || event.key === "p") this.walk(event.key === "n" ? 1 : -1);
    else if ((event.key === "ArrowLeft" || event.key === "ArrowRight") && this.foldOf.has(this.current)) this.fold(this.current, event.key === "ArrowLeft");
    else if (!this.events.key?.(event, this)) return;
    event.preventDefault();
  }

  /** Go to the row of a line so many rows below. */
  private step(rows: number): void {
    const down = rows > 0;
    let row = Math.max(0, Math.min(this.rows.length - 1, this.rowOf[this.current] + rows));
    while (row >= 0 && row < this.rows.length && this.rows[row] < 0) row += down ? 1 : -1;
    if (row >= 0 && row < this.rows.length) this.goTo(this.rows[row]);
  }
}
