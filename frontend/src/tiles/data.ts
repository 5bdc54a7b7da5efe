// The payload of the tiles view (tessera/viz/tile_debugger/model.py), and questions that the drawing asks of it.

import type { NDArray } from "../core";

export interface Stats { count: number; least: number | null; greatest: number | null; mean: number | null; nan: number; inf: number; absent: number; bins: number[] }
export interface Variable { name: string; dtype: string; shape: number[]; by_lane: boolean; stats: Stats; values: NDArray | null; stride: number[]; exists: NDArray | null }
export interface Touch { array: number; writes: boolean; text: string; elements: NDArray; lanes: NDArray | null; asked: [number, number][]; outside: number; absent: number; values: NDArray | null }
export interface Step { tile: number; line: number; kind: string; trips: [string, number | null, number][]; touches: Touch[]; variables: Variable[]; active: NDArray | null }
export interface ArrayData { name: string; dtype: string; shape: number[]; shared: boolean; mutable: boolean; before: NDArray | null }
export interface Tile { number: number; name: string; lanes: [number, number]; reads: string[]; writes: string[]; valued: boolean }
export interface Payload {
  title: string; text: string; group: string; kernel: string; kind: string; total: number; lanes: number; grid: number[]; first_line: number; lines: string[];
  arrays: ArrayData[]; tiles: Tile[]; steps: Step[]; left_out: string[];
  findings: string[]; focus: { step: number | null; array: number; element: number } | null;
}

/** Call with every element of runs, and its place in order. */
export function each(runs: NDArray, call: (element: number, order: number) => void): void {
  for (let row = 0, order = 0; row < runs.shape[0]; row++) {
    const [first, count, step] = [runs.data[3 * row], runs.data[3 * row + 1], runs.data[3 * row + 2]];
    for (let n = 0; n < count; n++) call(first + n * step, order++);
  }
}

/** The place of an element among runs, or -1. */
export function find(runs: NDArray, element: number): number {
  for (let row = 0, order = 0; row < runs.shape[0]; row++) {
    const [first, count, step] = [runs.data[3 * row], runs.data[3 * row + 1], runs.data[3 * row + 2]];
    const n = step ? (element - first) / step : element === first ? 0 : -1;
    if (n >= 0 && n < count && Number.isInteger(n)) return order + n;
    order += count;
  }
  return -1;
}

/** The element at a place of runs. */
export function at(runs: NDArray, order: number): number {
  for (let row = 0; row < runs.shape[0]; row++) {
    const count = runs.data[3 * row + 1];
    if (order < count) return runs.data[3 * row] + order * runs.data[3 * row + 2];
    order -= count;
  }
  return -1;
}

/** Indices, one an axis, of a row-major number. */
export function indices(element: number, shape: number[]): number[] {
  const found: number[] = [];
  for (let axis = shape.length - 1; axis >= 0; axis--) (found[axis] = element % shape[axis]), (element = Math.floor(element / shape[axis]));
  return found;
}

export const size = (shape: number[]): number => shape.reduce((a, b) => a * b, 1);

/** A number as short as it can be understood. */
export function shown(value: number | null | undefined): string {
  if (value === null || value === undefined) return "?";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+inf" : "−inf";
  return Number.isInteger(value) && Math.abs(value) < 1e9 ? String(value) : String(Number(value.toPrecision(5)));
}

/** An array as it stood after a step.  Goes on from the last answer where that was earlier. */
export class Contents {
  private data: Float64Array | null = null;
  private done = -1;
  private tile = -1;

  constructor(private payload: Payload, private array: number) {}

  after(step: number): Float64Array | null {
    const known = this.payload.arrays[this.array];
    const tile = this.payload.steps[step]?.tile ?? -1;
    if (!known.shared && !known.before) return null;
    if (!this.data || step < this.done || (known.shared && tile !== this.tile)) {
      this.data = known.before ? Float64Array.from(known.before.data) : new Float64Array(size(known.shape)).fill(NaN);
      this.done = -1;
      this.tile = tile;
    }
    for (; this.done < step; this.done++) {
      const next = this.payload.steps[this.done + 1];
      if (known.shared && next.tile !== tile) continue;
      for (const touch of next.touches) {
        const values = touch.values;
        if (touch.array === this.array && values) each(touch.elements, (element, order) => (this.data![element] = values.data[order]));
      }
    }
    return this.data;
  }
}
