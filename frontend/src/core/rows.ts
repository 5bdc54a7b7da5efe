// A table of any length in a scrolling box: only the rows in sight are elements, between two that keep the height.

import { make } from "./dom";

const MARGIN = 8;

/** What the rows are.  tall: pixels of each; head: pixels that stay above them
 *  row: the elements of one row, which the table marks, numbers and takes out again */
export interface RowSource {
  tall: number;
  head: number;
  count(): number;
  row(at: number): HTMLTableRowElement;
  on(at: number): boolean;
}

export class LongTable {
  private from = 0;
  private to = -1;
  /** Height and scroll position of the box, kept so that no draw waits for the browser's layout. */
  private high = 0;
  private top = 0;
  private readonly watch: ResizeObserver;

  /** Fill `body`, which is in the table `grid`, which is in the scrolling `box`. */
  constructor(private readonly box: HTMLElement, private readonly grid: HTMLTableElement, private readonly body: HTMLTableSectionElement, private readonly source: RowSource) {
    box.addEventListener("scroll", () => {
      this.top = box.scrollTop;
      this.fill();
    }, { passive: true });
    this.watch = new ResizeObserver(() => {
      this.high = box.clientHeight;
      this.fill();
    });
    this.watch.observe(box);
  }

  destroy(): void {
    this.watch.disconnect();
  }

  /** Make the rows in sight anew. */
  draw(): void {
    this.to = -1;
    this.grid.setAttribute("aria-rowcount", String(this.source.count() + 1));
    this.fill();
  }

  /** Mark the rows that are there: far cheaper than making them anew. */
  mark(): void {
    for (const row of this.body.rows) if (row.ariaRowIndex) this.paint(row, Number(row.ariaRowIndex) - 2);
  }

  /** Bring a row into sight. */
  reveal(at: number): void {
    const { tall, head } = this.source, y = at * tall, high = (this.high ||= this.box.clientHeight);
    if (y < this.top) this.scroll(y);
    else if (y + tall > this.top + high - head) this.scroll(y + tall - high + head);
  }

  toTop(): void {
    this.scroll(0);
  }

  private scroll(top: number): void {
    this.top = Math.max(0, top);
    this.fill();
    this.box.scrollTop = this.top;
  }

  private paint(row: HTMLTableRowElement, at: number): void {
    const on = this.source.on(at);
    row.setAttribute("aria-selected", String(on));
    row.classList.toggle("tsr-on", on);
  }

  private fill(): void {
    const { tall, count, row } = this.source, all = count();
    const first = Math.min(all, Math.floor(this.top / tall)), last = Math.min(all, first + Math.ceil((this.high || 320) / tall));
    if (this.to >= 0 && first >= this.from && last <= this.to) return;
    [this.from, this.to] = [Math.max(0, first - MARGIN), Math.min(all, last + MARGIN)];
    const gap = (rows: number): HTMLElement => make("tr", { "aria-hidden": "true", style: `height:${rows * tall}px` });
    const made: HTMLElement[] = [];
    for (let at = this.from; at < this.to; at++) {
      const one = row(at);
      one.setAttribute("aria-rowindex", String(at + 2));
      this.paint(one, at);
      made.push(one);
    }
    this.body.replaceChildren(gap(this.from), ...made, gap(all - this.to));
  }
}
