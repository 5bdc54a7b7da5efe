// Columns beside a text: where lines come from, arrows of branches, and the figures that Python sent.

import { escape, PALETTE, ROW, type Gutter } from "../core";
import type { Column, Key, Pane } from "./data";

const LANES = 6;
const STEP = 7;

export function originGutter(pane: Pane, keys: Key[]): Gutter {
  return {
    name: "from",
    width: "5.5ch",
    html: (line) => {
      const [sources] = keys[pane.keys[line]];
      return sources.length ? `L${sources[0]}${sources.length > 1 ? "+" : ""}` : "·";
    },
  };
}

export function columnGutter(column: Column): Gutter {
  return {
    name: `c tsr-c-${column.name}`,
    width: `${column.width}ch`,
    html: (line) => {
      const kind = column.kinds[column.cells[line]];
      if (!kind) return "";
      const [text, told, bar] = kind;
      const share = bar >= 0 ? `<i style="width:${(100 * bar).toFixed(1)}%"></i>` : "";
      return `<span title="${escape(`${column.title}: ${told}`)}">${share}<b>${escape(text)}</b></span>`;
    },
  };
}

/** The lines of a pane with samples, those with the most first. */
export function byShare(pane: Pane): number[] {
  const column = pane.columns.find(({ name }) => name === "samples");
  if (!column) return [];
  const share = (line: number): number => column.kinds[column.cells[line]]?.[2] ?? 0;
  return [...column.cells.keys()].filter((line) => share(line) > 0).sort((a, b) => share(b) - share(a));
}

/** Arrows from each jump to its label, in columns; null where nothing jumps. */
export function branchGutter(pane: Pane): Gutter | null {
  const { branches } = pane.body;
  if (!branches.length) return null;
  const count = pane.keys.length;
  const through = new Int32Array(count * LANES).fill(-1);
  const ends = new Map<number, number[]>();
  let lanes = 0;
  branches.forEach(([target, lane, ...sources], number) => {
    for (const line of [target, ...sources]) ends.set(line, [...(ends.get(line) ?? []), number]);
    if (lane < 0) return;
    lanes = Math.max(lanes, lane + 1);
    for (let line = Math.min(target, ...sources), last = Math.max(target, ...sources); line <= last; line++) through[line * LANES + lane] = number;
  });
  const width = lanes * STEP + 14;
  const middle = ROW / 2;
  const html = (line: number): string => {
    let paths = "";
    for (let lane = 0; lane < lanes; lane++) {
      const number = through[line * LANES + lane];
      if (number < 0) continue;
      const [target, , ...sources] = branches[number];
      const [low, high] = [Math.min(target, ...sources), Math.max(target, ...sources)];
      const x = width - 12 - lane * STEP;
      const hue = PALETTE[number % PALETTE.length];
      const [from, to] = [line === low ? middle : 0, line === high ? middle : ROW];
      paths += `<path stroke="${hue}" d="M${x} ${from}V${to}"/>`;
      if (line === target || sources.includes(line)) paths += `<path stroke="${hue}" d="M${x} ${middle}H${width - 4}"/>`;
    }
    for (const number of ends.get(line) ?? []) {
      if (branches[number][0] !== line) continue;
      const hue = PALETTE[number % PALETTE.length];
      paths += `<path fill="${hue}" stroke="none" d="M${width - 7} ${middle - 4}l6 4l-6 4z"/>`;
    }
    if (!paths) return "";
    return `<svg style="width:${width}px;height:${ROW}px;max-width:none" aria-hidden="true" fill="none" stroke-width="1.5">${paths}</svg>`;
  };
  return { name: "branch", width: `${width}px`, html };
}

/** What the branches say of a line, in words. */
export function branchText(pane: Pane, line: number): string {
  const told: string[] = [];
  for (const [target, , ...sources] of pane.body.branches) {
    if (sources.includes(line)) told.push(`jumps to line ${target + 1}`);
    if (target === line) told.push(`reached from ${sources.length === 1 ? "line" : "lines"} ${sources.slice(0, 6).map((each) => each + 1).join(", ")}${sources.length > 6 ? " …" : ""}`);
  }
  return told.join("; ");
}
