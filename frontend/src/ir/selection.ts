// What is selected, from a click on a line, from other views, or from the address of the page.

import type { CodePane, Selection } from "../core";
import type { Chosen, Pane, Payload } from "./data";

/** A selection, with the line that was chosen here; null: it was chosen elsewhere. */
export type Selected = Chosen & { code: CodePane | null; line: number };

const nothing = (): Chosen => ({ ops: new Set(), sources: new Set(), places: new Set(), spans: [] });

function addLine(data: Payload, chosen: Chosen, line: number): void {
  chosen.sources.add(line);
  chosen.places.add(line);
  for (const [op, story] of Object.entries(data.ops)) if (story.place?.[0] === line) chosen.ops.add(Number(op));
}

function addOp(data: Payload, chosen: Chosen, op: number): void {
  chosen.ops.add(op);
  const place = data.ops[op]?.place;
  if (place) chosen.places.add(place[0]);
}

/** What a line stands for; pane: null for a line of the source. */
export function ofLine(data: Payload, pane: Pane | undefined, line: number): Chosen {
  const chosen = nothing();
  if (!pane) addLine(data, chosen, line + data.first);
  else {
    const [sources, ops, spans] = data.keys[pane.keys[line]];
    for (const op of ops) addOp(data, chosen, op);
    for (const each of sources) chosen.sources.add(each), chosen.places.add(each);
    chosen.spans = spans;
  }
  return chosen;
}

/** What another view selected. */
export function ofOthers(data: Payload, selection: Selection): Chosen {
  const chosen = nothing();
  for (const op of selection.ops ?? []) {
    addOp(data, chosen, op);
    for (const below of data.links?.[op] ?? []) chosen.ops.add(below);
  }
  for (const line of selection.lines ?? []) {
    if (selection.ops?.length) chosen.sources.add(line), chosen.places.add(line);
    else addLine(data, chosen, line);
  }
  return chosen;
}

/** What other views hear of a line that was chosen. */
export function forOthers(data: Payload, chosen: Chosen, pane: Pane | undefined, line: number): Selection {
  const record = pane && data.records[pane.records[line] ?? -1]?.[0];
  return {
    ops: [...chosen.ops], lines: [...chosen.places].sort((a, b) => a - b), ...(record ? { records: [record] } : {}),
    label: pane ? `${pane.name}, line ${line + 1}` : `line ${line + data.first}`,
  };
}

/** The lines of the source that are marked, and in them the exact places. */
export function inSource(data: Payload, chosen: Chosen | null): { marks: Uint8Array | null; exact: Map<number, [number, number][]> } {
  const exact = new Map<number, [number, number][]>();
  for (const [line, start, stop] of chosen?.spans ?? []) {
    const at = line - data.first;
    if (at >= 0 && at < data.source.length) exact.set(at, [...(exact.get(at) ?? []), [start - 1, stop - 1]]);
  }
  return { marks: chosen && Uint8Array.from(data.source, (_, line) => Number(chosen.places.has(line + data.first))), exact };
}

/** The fragment of an address that names a line. */
export function fragment(data: Payload, pane: Pane | undefined, line: number): string {
  const place = pane ? `${pane.name}:${line + 1}` : `source:${line + data.first}`;
  return `#tsr=${encodeURIComponent(`${data.name}/${place}`)}`;
}

/** The line that a fragment names: of a pane, or null for the source; undefined: of another view, or of none. */
export function named(data: Payload, panes: Pane[], hash: string): { pane: Pane | null; line: number } | undefined {
  const found = /^#tsr=(.+)$/.exec(hash);
  const [, name, place, number] = (found && /^(.*?)\/(.+):(\d+)$/.exec(decodeURIComponent(found[1]))) ?? [];
  if (!found || name !== data.name) return undefined;
  const pane = place === "source" ? null : panes.find((each) => each.name === place);
  const line = Number(number) - (pane ? 1 : data.first), count = pane ? pane.keys.length : data.source.length;
  return pane === undefined || line < 0 || line >= count ? undefined : { pane, line };
}
