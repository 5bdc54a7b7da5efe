// What tessera/viz/profile/model.py sends of a launch.
import type { NDArray } from "../core";

export interface Columns {
  group: NDArray;
  row: NDArray;
  lane: NDArray;
  start: NDArray;
  end: NDArray;
  phases: Record<string, NDArray>;
}

export interface Launch {
  title: string;
  unit: string;
  rows: string[];
  lanes: number;
  axes: { name: string; size: number; step: number }[];
  array: { name: string; shape: number[]; dims: number[] } | null;
  every: number;
  span: number;
  predicted_span: number;
  told: string;
  measured: Columns | null;
  predicted: Columns | null;
  waves: { number: number; start: number; end: number; groups: number; slots: number }[];
  chunked: boolean;
  idle: number;
  lines: number[];
  figures: [string, string][];
  remarks: string[];
  table: string[][];
  slowest: { tile: number; row: string; start: number; duration: number }[];
}

/** ns in words. */
export function time(ns: number): string {
  const units: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]];
  for (const [size, unit] of units) if (Math.abs(ns) >= size) return `${(ns / size).toPrecision(3).replace(/\.?0+$/, (z) => (z.startsWith(".") ? "" : z))} ${unit}`;
  return `${ns.toPrecision(3)} ns`;
}

/** The place of a group along each axis of its grid, the last one fastest. */
export function place(group: number, axes: { size: number }[]): number[] {
  const found: number[] = [];
  for (let n = axes.length - 1; n >= 0; n--) {
    found.unshift(group % axes[n].size);
    group = Math.floor(group / axes[n].size);
  }
  return found;
}

/** "m 128:192, n 0:64": the elements that a group stands for. */
export const where = (group: number, axes: Launch["axes"]): string =>
  place(group, axes).map((at, n) => (axes[n].step > 1 ? `${axes[n].name} ${at * axes[n].step}:${(at + 1) * axes[n].step}` : `${axes[n].name} ${at}`)).join(", ");

/** The first element of a group in the array that the grid divides, for selections. */
export function element(group: number, launch: Launch): { array: string; place: number[] }[] {
  const { array, axes } = launch;
  if (!array) return [];
  const start = array.shape.map(() => 0);
  place(group, axes).forEach((at, n) => (start[array.dims[n]] = at * axes[n].step));
  return [{ array: array.name, place: start }];
}
