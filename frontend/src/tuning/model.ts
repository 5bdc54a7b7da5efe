// A search as columns of numbers (tessera/viz/tuning/model.py), sorted and brushed by the rules that are tested there.
import type { NDArray } from "../core";

export interface Parameter { name: string; values: string[]; keys: string[]; codes: NDArray }
export interface Effect { name: string; share: number; best: string }
/** A configuration timed in turns with the best: the median of its time over the best one's, and an interval around it. */
export interface Finalist { row: number; seconds: number; ratio: number; low: number; high: number; wins: number; rounds: number }
export interface Head {
  state: string; phase: string; settled: number; total: number; seconds: number | null; budget: number | null; left: number | null;
  best: number; default: number; pins: number[]; scale: number; told: string; flops: number; traffic: number;
  effects: Effect[]; full: boolean; curve: [number, number][];
  finalists: Finalist[];
}
export type Columns = Record<"status" | "seconds" | "shortest" | "predicted" | "rank" | "at" | "message" | "same_as" | "disturbed" | "launches", NDArray>;
export interface Payload {
  title: string; text: string; kernel: string; device: string; steered: boolean; version: number;
  parameters: Parameter[]; columns: Columns; messages: string[]; statuses: string[]; head: Head; notes: string[];
}
export interface Delta { from: number; to: number; rows: NDArray; columns: Columns; messages: string[]; head: Head }

/** What can be an axis, a column of the table or a side of the scatter. */
export interface Axis { name: string; label: string; ticks: string[] | null }

export const micro = (seconds: number): string =>
  seconds >= 1 ? `${seconds.toFixed(2)} s` : seconds >= 0.01 ? `${(seconds * 1e3).toFixed(1)} ms` : `${(seconds * 1e6).toLocaleString("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 })} µs`;

export class Model {
  ranges = new Map<string, [number, number]>();
  sort = "verdict";
  descending = false;
  /** Rows inside every brush, in the order of the table. */
  rows: Int32Array = new Int32Array(0);
  inside: Uint8Array = new Uint8Array(0);
  private columns = new Map<string, Float64Array>();
  private keyOrder: Parameter[];
  private least = 0;

  constructor(public data: Payload) {
    this.keyOrder = [...data.parameters].sort((a, b) => (a.name < b.name ? -1 : 1));
    this.refresh();
  }
  get size(): number { return this.data.columns.status.data.length; }
  get head(): Head { return this.data.head; }
  get axes(): Axis[] {
    const predicted = this.column("predicted").some((seconds) => seconds > 0); // an axis without values would cut all lines
    return [...this.data.parameters.map((each) => ({ name: each.name, label: each.name, ticks: each.values })),
      ...(predicted ? [{ name: "predicted", label: "predicted", ticks: null }] : []), { name: "time", label: "time", ticks: null }];
  }

  column(name: string): Float64Array {
    const known = this.columns.get(name);
    if (known) return known;
    if (name === "verdict") return this.verdict();
    const of = this.data.columns;
    const made = new Float64Array(this.size);
    const parameter = this.data.parameters.find((each) => each.name === name);
    const source = parameter ? parameter.codes : name === "time" ? of.seconds : name === "predicted" ? of.predicted : of.rank;
    const scale = name === "predicted" ? this.head.scale : 1;
    const gaps = parameter !== undefined || name === "trial";
    for (let row = 0; row < made.length; row++) made[row] = gaps && source.data[row] < 0 ? NaN : source.data[row] * scale;
    this.columns.set(name, made);
    return made;
  }

  /** What decided: the best, those that were timed in turns with it, and the others by their times. */
  private verdict(): Float64Array {
    const { finalists, best } = this.head, made = Float64Array.from(this.column("time"), (seconds) => finalists.length + seconds);
    finalists.forEach(({ row }, place) => { made[row] = place; });
    if (best >= 0) made[best] = -1;
    this.columns.set("verdict", made);
    return made;
  }
  finalist(row: number): Finalist | undefined { return this.head.finalists.find((each) => each.row === row); }

  /** Sort and brush again: those without a value come last, equal ones as they stand, and lie in no range. */
  refresh(): void {
    this.columns.clear();
    this.least = 0;
    this.inside = new Uint8Array(this.size).fill(1);
    for (const [name, [low, high]] of this.ranges) {
      const values = this.column(name);
      for (let row = 0; row < values.length; row++) if (!(values[row] >= low && values[row] <= high)) this.inside[row] = 0;
    }
    this.order();
  }
  order(): void {
    const values = this.column(this.sort), sign = this.descending ? -1 : 1;
    const pins = new Set(this.head.pins);
    this.rows = Int32Array.from({ length: this.size }, (_, row) => row).filter((row) => this.inside[row] || pins.has(row)).sort((a, b) => {
      if (pins.size && pins.has(a) !== pins.has(b)) return pins.has(a) ? -1 : 1;
      const [x, y] = [values[a], values[b]];
      if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || a - b;
      return sign * (x - y) || a - b;
    });
  }

  apply(delta: Delta): void {
    const rows = delta.rows.data;
    for (const [name, changed] of Object.entries(delta.columns)) {
      const column = this.data.columns[name as keyof Columns].data;
      for (let i = 0; i < rows.length; i++) column[rows[i]] = changed.data[i];
    }
    this.data.messages = delta.messages;
    this.data.head = delta.head;
    this.data.version = delta.to;
    this.columns.delete("verdict");
    if (rows.length) this.refresh();
    else this.order();
  }

  /** The configuration as Python's `config_key` writes it, which other views know it by. */
  key(row: number): string {
    const parts = this.keyOrder.filter((each) => each.codes.data[row] >= 0).map((each) => `${JSON.stringify(each.name)}: ${each.keys[each.codes.data[row]]}`);
    return `{${parts.join(", ")}}`;
  }
  config(row: number): string {
    return this.data.parameters.filter((each) => each.codes.data[row] >= 0).map((each) => `${each.name}=${each.values[each.codes.data[row]]}`).join(" ") || "the kernel's own values";
  }
  rate(row: number): [string, string] {
    const seconds = this.data.columns.seconds.data[row];
    const say = (work: number): string => (work && seconds > 0 ? (work / seconds / 1e9).toLocaleString("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 }) : "");
    return [say(this.head.flops), say(this.head.traffic)];
  }
  status(row: number): string { return this.data.statuses[this.data.columns.status.data[row]]; }
  error(row: number): string {
    const of = this.data.columns;
    const seconds = of.seconds.data[row], predicted = this.column("predicted")[row];
    return seconds > 0 && predicted > 0 ? `${predicted >= seconds ? "+" : "−"}${Math.abs((predicted / seconds - 1) * 100).toFixed(0)} %` : "";
  }
  remark(row: number): string {
    const of = this.data.columns, parts: string[] = [];
    if (row === this.head.best) parts.push("★ best");
    if (this.head.pins.includes(row)) parts.push("⚑ pinned");
    if (row === this.head.default) parts.push("default");
    if (of.same_as.data[row] >= 0) parts.push(`same code as ${this.config(of.same_as.data[row])}`);
    const best = of.seconds.data[this.head.best], own = of.seconds.data[row];
    const turns = this.finalist(row), elsewhere = this.head.finalists.length > 1 ? ", timed at another moment" : "";
    if (row === this.head.best) parts.push(...(turns && turns.rounds ? [`decided in ${turns.rounds} rounds`] : []));
    else if (turns) parts.push(`${turns.ratio.toFixed(3)} × the best in ${turns.rounds} rounds`);
    else if (own > 0 && best > 0) parts.push(`${(own / best).toFixed(2)} × the best${elsewhere}`);
    if (of.disturbed.data[row]) parts.push(`≈ ${of.disturbed.data[row]} launches disturbed by other work`);
    if (of.message.data[row] >= 0) parts.push(this.data.messages[of.message.data[row]]);
    return parts.join(", ");
  }
  told(row: number): string {
    const seconds = this.data.columns.seconds.data[row];
    const rates = this.rate(row).map((rate, i) => rate && `${rate} ${["GFLOP/s", "GB/s"][i]}`);
    const predicted = this.column("predicted")[row];
    return [this.config(row) + ":", seconds > 0 ? micro(seconds) : this.status(row), ...rates, predicted > 0 && `predicted ${micro(predicted)}${this.error(row) && ` (${this.error(row)})`}`, this.remark(row)].filter(Boolean).join(", ").replace(":,", ":");
  }
  /** 0 for the fastest, 1 for four times that and slower, NaN without a time. */
  heat(row: number): number {
    const best = (this.least ||= this.lowest());
    const seconds = this.data.columns.seconds.data[row];
    return seconds > 0 ? Math.min(1, Math.log2(Math.max(1, seconds / best)) / 2) : NaN;
  }
  private lowest(): number {
    let lowest = Infinity;
    for (const seconds of this.column("time")) if (seconds > 0 && seconds < lowest) lowest = seconds;
    return lowest;
  }
}
