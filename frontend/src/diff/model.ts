// A comparison as Python packed it (tessera/viz/diffs/packing.py), and the rows of the two layouts.

export interface Packed {
  at: [number, number];
  texts: [string, string];
  rows: number[][];
  changes: [string, number, number, number[], number[], string[], boolean, [number, number][], [number, number][]][];
  kept: number;
  told: string;
}
export interface PackedText {
  text: number[];
  lines: number[][];
  ops: number[][];
  /** instructions of the machine code, on the first line of an operation */
  counts: number[];
}
export interface Figure {
  name: string;
  unit: string;
  before: number | null;
  after: number | null;
  better: number;
  note: string;
}
export interface Payload {
  title: string;
  text: string;
  group: string;
  signs: Record<string, string>;
  sides: { name: string; stages: string[] }[];
  choices: [string, string][][];
  chosen: [number, number];
  pairs: Packed[];
  texts: Record<string, PackedText>;
  strings: string[];
  figures: Figure[];
  verdict: { text: string; level: "good" | "doubtful" | "bad"; details: string[] } | null;
}

export interface Line {
  text: string;
  lines: number[];
  ops: number[];
  count: number;
}
export interface Change {
  kind: string;
  name: string;
  words: string;
  sides: [number[], number[]];
  fields: string[];
  moved: boolean;
  marks: [[number, number][], [number, number][]];
}
/** A row of two columns: line numbers of each side and their changes, -1 for none. */
export type Row = [number, number, number, number];
export interface Comparison {
  at: [number, number];
  sides: [Line[], Line[]];
  rows: Row[];
  changes: Change[];
  kept: number;
}

export function unpacked(one: Packed, texts: Record<string, PackedText>, strings: string[]): Comparison {
  const side = (key: string): Line[] => {
    const found = texts[key];
    return found.text.map((text, i) => ({ text: strings[text], lines: found.lines[i], ops: found.ops[i], count: found.counts[i] }));
  };
  const rows: Row[] = [];
  for (const row of one.rows) {
    if (row.length === 3) for (let i = 0; i < row[2]; i++) rows.push([row[0] + i, row[1] + i, -1, -1]);
    else rows.push(row as Row);
  }
  const changes = one.changes.map(([kind, name, words, before, after, fields, moved, old, now]): Change => ({
    kind, name: strings[name], words: strings[words] ? `${strings[name]}: ${strings[words]}` : strings[name], sides: [before, after], fields, moved, marks: [old, now],
  }));
  const left = side(one.texts[0]);
  return { at: one.at, sides: [left, one.texts[0] === one.texts[1] ? left : side(one.texts[1])], rows, changes, kept: one.kept };
}

/** What the reader wants to see as changes. */
export interface Wanted {
  kinds: Set<string>;
  attributes: boolean;
  locations: boolean;
}

/** Whether a change is shown as one; what is hidden for its fields may still have moved. */
export function shown(change: Change, wanted: Wanted): boolean {
  if (!change.sides[0].length && !change.sides[1].length) return false;
  if (change.kind === "changed" && !change.moved) {
    const left = change.fields.filter((field) => !(field === "attributes" && !wanted.attributes) && !(field === "locations" && !wanted.locations));
    if (!left.length) return false;
  }
  return wanted.kinds.has(change.kind);
}

/** What a list shows: a row, one side of it (0 or 1), or rows that are folded away. */
export type Item = { row: number; side: number; fold?: undefined } | { fold: number; row: number; side: number };

const CONTEXT = 3;
const LEAST = 8; // rows that are worth folding

export function items(comparison: Comparison, visible: boolean[], unified: boolean, open: Set<number>): Item[] {
  const { rows } = comparison;
  const differs = rows.map(([i, j, a, b]) => i < 0 || j < 0 || (a >= 0 && visible[a]) || (b >= 0 && visible[b]));
  const near = new Uint8Array(rows.length);
  differs.forEach((yes, at) => yes && near.fill(1, Math.max(0, at - CONTEXT), at + CONTEXT + 1));
  const found: Item[] = [];
  let at = 0;
  while (at < rows.length) {
    let end = at;
    while (end < rows.length && !near[end]) end++;
    if (end - at >= LEAST && !open.has(at)) {
      found.push({ fold: end - at, row: at, side: 0 });
      at = end;
      continue;
    }
    for (; at < end; at++) found.push({ row: at, side: unified ? 1 : 2 });
    for (; at < rows.length && near[at]; at++) found.push(...(unified ? oneColumn(comparison, at, differs[at]) : [{ row: at, side: 2 }]));
  }
  return found;
}

/** A row in one column: both sides where they differ in text. */
function oneColumn(comparison: Comparison, at: number, differs: boolean): Item[] {
  const [i, j, a, b] = comparison.rows[at];
  const [old, now] = comparison.sides;
  const both = i >= 0 && j >= 0;
  if (both && (!differs || (a === b && old[i].text.trim() === now[j].text.trim()))) return [{ row: at, side: 1 }];
  return [...(i >= 0 ? [{ row: at, side: 0 }] : []), ...(j >= 0 ? [{ row: at, side: 1 }] : [])];
}
