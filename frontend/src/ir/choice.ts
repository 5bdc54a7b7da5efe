// Which levels are shown, each after which of its passes.

import type { Pane } from "./data";

export class Choice {
  readonly levels: string[];
  /** The pass of each level. */
  readonly chosen: Record<string, Pane> = {};
  /** Several levels side by side, or one. */
  all: boolean;
  /** The one that is shown alone, and those that are shown side by side. */
  level: string;
  private readonly shown: Set<string>;
  /** Panes shown side by side besides those of `shown`: the same level after another pass. */
  private extra: Pane[] = [];

  constructor(private readonly panes: Pane[], open: string[]) {
    this.levels = [...new Set(panes.map((pane) => pane.level))];
    for (const pane of panes) this.chosen[pane.level] = pane;
    this.level = open.find((level) => this.levels.includes(level)) ?? this.levels[0];
    this.all = open.length > 1;
    this.shown = new Set(this.all ? open : this.levels);
  }

  /** The panes from left to right. */
  get inSight(): Pane[] {
    if (!this.all) return [this.chosen[this.level]].filter(Boolean);
    const shown = this.levels.filter((level) => this.shown.has(level)).map((level) => this.chosen[level]);
    return [...shown, ...this.extra].sort((a, b) => a.index - b.index);
  }

  stages(level: string): Pane[] {
    return this.panes.filter((pane) => pane.level === level);
  }

  shows(level: string): boolean {
    return this.shown.has(level);
  }

  isExtra(pane: Pane): boolean {
    return this.extra.includes(pane);
  }

  /** Show a level beside the others, or take it away; one always stays. */
  toggle(level: string): void {
    if (!this.shown.delete(level)) this.shown.add(level);
    else this.extra = this.extra.filter((pane) => pane.level !== level);
    if (!this.shown.size) this.shown.add(level);
  }

  /** Show another pass in the place of `pane`. */
  step(pane: Pane, next: Pane): void {
    if (this.isExtra(pane)) this.extra = this.extra.map((each) => (each === pane ? next : each));
    else this.chosen[pane.level] = next;
    this.extra = [...new Set(this.extra)].filter((each) => each !== this.chosen[pane.level]);
  }

  /** Show another pass of the level beside `pane`: the one before it, where there is one left. */
  duplicate(pane: Pane): void {
    const others = this.stages(pane.level).filter((each) => each !== pane && !this.isExtra(each));
    const before = others.filter((each) => each.index < pane.index).at(-1) ?? others[0];
    if (!before) return;
    this.extra.push(before);
    if (this.all) return;
    this.all = true;
    this.shown.clear();
    this.shown.add(pane.level);
  }

  close(pane: Pane): void {
    this.extra = this.extra.filter((each) => each !== pane);
  }

  /** Bring a pane on the screen. */
  show(pane: Pane): void {
    this.chosen[pane.level] = pane;
    this.close(pane);
    if (this.all) this.shown.add(pane.level);
    else this.level = pane.level;
  }
}
