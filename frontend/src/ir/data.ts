// What Python sent for the explorer (tessera/viz/ir/explorer_view.py), and the rule of counterparts.

import type { NDArray } from "../core";

export type Numbers = number[] | NDArray["data"];
type Sent = number[] | NDArray;
/** Source lines, operations, places as (line, first column, column past the end). */
export type Key = [sources: number[], ops: number[], spans: [number, number, number][]];

interface SentColumn {
  name: string;
  title: string;
  width: number;
  cells: Sent;
  kinds: [text: string, told: string, bar: number][];
}

interface SentPane {
  level: string;
  stage: string;
  ran: { name: string; seconds: number; changed: boolean | null; options: Record<string, unknown> } | null;
  signs: string;
  ghosts: [number, string][];
  /** Of operations, where they have identities, else of lines. */
  counts: { fresh: number; changed: number; gone: number; told: string };
  same?: number;
  text: string;
  keys: Sent;
  records: Sent;
  quiet: Sent;
  filter: string;
  folds: [number, number][];
  branches: number[][];
  columns: SentColumn[];
  docs: Sent;
}

export interface Payload {
  title: string;
  group: string;
  name: string;
  target: string;
  label: string;
  first: number;
  source: string[];
  captions: Record<string, string>;
  open: string[];
  panes: SentPane[];
  keys: Key[];
  ops: Record<string, { place: [number, number] | null; born: number; last: number; mates: number[] }>;
  records: [id: string, born: number, last: number][];
  docs: [name: string, text: string][];
  measured?: SentColumn | null;
  remarks?: Record<string, string>;
  kernels?: string[];
  kernel?: number;
  links?: Record<string, number[]>;
}

const numbers = (sent: Sent): Numbers => (Array.isArray(sent) ? sent : sent.data);

export interface Column extends Omit<SentColumn, "cells"> {
  cells: Numbers;
}

export const columnOf = (sent: SentColumn): Column => ({ ...sent, cells: numbers(sent.cells) });

/** One level after one pass; what belongs to its text is read when it is first needed. */
export class Pane {
  readonly level: string;
  readonly keys: Numbers;
  readonly records: Numbers;
  readonly docs: Numbers;
  readonly columns: Column[];
  readonly quiet: Set<number>;
  private split: string[] | null = null;

  constructor(readonly sent: SentPane, readonly body: SentPane, readonly index: number) {
    this.level = sent.level;
    this.keys = numbers(body.keys);
    this.records = numbers(body.records);
    this.docs = numbers(body.docs);
    this.columns = body.columns.map(columnOf);
    this.quiet = new Set(numbers(body.quiet));
  }

  get lines(): string[] {
    return (this.split ??= this.body.text ? this.body.text.split("\n") : []);
  }

  /** "tile/tile-simplify", or the level where it has one stage. */
  get name(): string {
    return `${this.level}/${this.sent.stage}`;
  }
}

/** A selection: operations, lines of the user's file, and what of these is marked in the source. */
export interface Chosen {
  ops: Set<number>;
  sources: Set<number>;
  places: Set<number>;
  spans: [number, number, number][];
}

/** For each key, 1 where its lines are counterparts: common operations, else common source lines. */
export function held(keys: Key[], chosen: Chosen): Uint8Array {
  const on = new Uint8Array(keys.length);
  keys.forEach(([sources, ops], key) => {
    const hit = chosen.ops.size && ops.length ? ops.some((op) => chosen.ops.has(op)) : sources.some((line) => chosen.sources.has(line));
    if (hit) on[key] = 1;
  });
  return on;
}

/** For each line of a pane, 1 where its key is held. */
export function marksOf(pane: Pane, on: Uint8Array): [marks: Uint8Array, count: number] {
  const marks = new Uint8Array(pane.keys.length);
  let count = 0;
  for (let line = 0; line < marks.length; line++) count += marks[line] = on[pane.keys[line]];
  return [marks, count];
}
