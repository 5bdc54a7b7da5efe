// Level of detail: tiles of one lane (sorted, not overlapping) that are narrower than some pixels are counted in columns
// of one pixel, the others are drawn one by one.  No tile is lost or drawn twice.

/** Wide tiles by their indices, the share of each column that narrow ones take, and how many those are. */
export interface Bins {
  wide: number[];
  covered: Float32Array;
  narrow: number;
}

export const empty = (width: number): Bins => ({ wide: [], covered: new Float32Array(width), narrow: 0 });

/** Empty `bins` for another lane: a redraw of a GPU has thousands of lanes, and would make as many arrays. */
export function clear(bins: Bins): void {
  bins.wide.length = bins.narrow = 0;
  bins.covered.fill(0);
}

/** The first tile of [from, to) that has not ended at `time`. */
export function after(start: ArrayLike<number>, end: ArrayLike<number>, from: number, to: number, time: number): number {
  while (from < to) {
    const middle = (from + to) >> 1;
    if (end[middle] > time || start[middle] >= time) to = middle;
    else from = middle + 1;
  }
  return from;
}

/** Put the tiles of [from, to) that are seen between two times into `bins`, of as many columns as there are pixels:
 *  those of at least `least` pixels into `wide`; the others are counted in `narrow`, and are in `covered` of every
 *  column, as the share of it that they take. */
export function bin(bins: Bins, start: ArrayLike<number>, end: ArrayLike<number>, from: number, to: number, first: number, last: number, least: number): void {
  const width = bins.covered.length;
  const scale = width / (last - first);
  for (let i = after(start, end, from, to, first); i < to && start[i] < last; i++) {
    const a = (start[i] - first) * scale;
    const b = (end[i] - first) * scale;
    if (b - a >= least) {
      bins.wide.push(i);
      continue;
    }
    const left = Math.max(0, a);
    const right = Math.min(width, b);
    const column = Math.min(width - 1, Math.floor(left));
    bins.narrow++;
    for (let x = column; x < right; x++) bins.covered[x] += Math.max(0, Math.min(right, x + 1) - Math.max(left, x));
  }
}
