// Search in every level: what is found in each text is looked for once.

import { make } from "../core";
import type { Pane } from "./data";

const SOON = 120;
/** Lines of all panes from which it waits for the next key. */
const MANY = 50_000;

export class Search {
  readonly node: HTMLInputElement;
  query = "";
  private late = 0;
  private hits = new Map<readonly string[], Uint8Array>();
  private counts = new Map<readonly string[], number>();

  /** lines: of all panes together; changed: hears that there is another query; walk: Enter, to the next hit or (-1) back */
  constructor(private readonly lines: number, private readonly changed: () => void, walk: (step: number) => void) {
    this.node = make("input", { type: "search", placeholder: "search every level", "aria-label": "search every level", oninput: () => this.typed(),
      onkeydown: (event: KeyboardEvent) => event.key === "Enter" && walk(event.shiftKey ? -1 : 1) });
  }

  /** For each line, 1 where it holds the query. */
  found(lines: readonly string[]): Uint8Array {
    const known = this.hits.get(lines);
    if (known) return known;
    const hits = Uint8Array.from(lines, (line) => Number(line.toLowerCase().includes(this.query)));
    this.hits.set(lines, hits);
    this.counts.set(lines, hits.reduce((sum, hit) => sum + hit, 0));
    return hits;
  }

  /** How many lines hold the query. */
  count(pane: Pane): number {
    this.found(pane.lines);
    return this.counts.get(pane.lines)!;
  }

  clear(): void {
    this.node.value = "";
    this.set("");
  }

  private set(query: string): void {
    this.query = query;
    this.hits = new Map();
    this.counts = new Map();
  }

  private typed(): void {
    clearTimeout(this.late);
    const find = (): void => {
      this.set(this.node.value.trim().toLowerCase());
      this.changed();
    };
    if (this.lines > MANY) this.late = window.setTimeout(find, SOON);
    else find();
  }
}
