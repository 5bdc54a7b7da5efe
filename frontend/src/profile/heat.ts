// The tiles of a heat map as a picture, painted once for each measure, slice and theme: one pixel a tile, enlarged.

import type { NDArray } from "../core";

/** What a heat map shows of the tiles: a number each, and how it is said. */
export interface Measure { name: string; values: NDArray["data"]; word(value: number): string }
/** From which value to which the colours go; `above`: what lies beyond `high` has the colour of it. */
export interface Range { low: number; high: number; above: boolean }
export interface Raster { rows: number; columns: number; cell: number; first: number }

// Viridis, which grows evenly in lightness and so is read without colours too.
const STOPS = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37]];
const SHADES = 512;
/** Cells below this size, in pixels, stand without a gap and without crosses. */
const GAP_FROM = 6;

const mixed = (share: number): number[] => {
  const at = Math.max(0, Math.min(1, share)) * (STOPS.length - 1);
  const low = Math.min(STOPS.length - 2, Math.floor(at));
  return STOPS[low].map((value, n) => Math.round(value + (STOPS[low + 1][n] - value) * (at - low)));
};
export const shade = (share: number): string => `rgb(${mixed(share).join(",")})`;

/** Pixels as ImageData has them, from red, green and blue. */
const pixel = ([r, g, b]: number[]): number => new Uint32Array(new Uint8ClampedArray([r, g, b, 255]).buffer)[0];
const PIXELS = Uint32Array.from({ length: SHADES }, (_, n) => pixel(mixed(n / (SHADES - 1))));

/** Find the range of the colours; of a time with outliers the slowest fiftieth is one colour, so that a few do not make
 *  all others look alike.
 *  least: below which nothing is cut off; null: nothing is */
export function rangeOf(values: NDArray["data"], least: number | null): Range {
  let [low, high, count] = [Infinity, -Infinity, 0];
  for (const value of values) {
    if (Number.isNaN(value)) continue;
    count++;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (least === null || !count) return { low, high, above: false };
  const sorted = Float32Array.from(values).sort(); // what is no number comes last
  const limit = Math.max(sorted[Math.floor(0.98 * (count - 1))], least);
  return limit < high ? { low, high: limit, above: true } : { low, high, above: false };
}

/** Paint one slice.
 *  crossed: tiles with a cross, where there is room; none: colour of a tile without a value, as CSS writes it
 *  ratio: pixels of the screen for each of the page */
export function painted(values: NDArray["data"], range: Range, raster: Raster, crossed: Iterable<number>, none: string, ratio: number): HTMLCanvasElement {
  const { rows, columns, cell, first } = raster;
  const tiles = document.createElement("canvas");
  [tiles.width, tiles.height] = [columns, rows];
  const flat = tiles.getContext("2d", { willReadFrequently: true })!, image = flat.createImageData(columns, rows), pixels = new Uint32Array(image.data.buffer);
  flat.fillStyle = none;
  flat.fillRect(0, 0, 1, 1);
  const [without] = new Uint32Array(flat.getImageData(0, 0, 1, 1).data.buffer);
  const scale = range.high > range.low ? (SHADES - 1) / (range.high - range.low) : 0;
  const count = Math.min(rows * columns, values.length - first);
  for (let n = 0; n < count; n++) {
    const value = values[first + n];
    pixels[n] = Number.isNaN(value) ? without : PIXELS[Math.max(0, Math.min(SHADES - 1, Math.round((value - range.low) * scale)))];
  }
  flat.putImageData(image, 0, 0);

  const picture = document.createElement("canvas");
  [picture.width, picture.height] = [Math.round(columns * cell * ratio), Math.round(rows * cell * ratio)];
  const g = picture.getContext("2d")!;
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.imageSmoothingEnabled = false;
  g.drawImage(tiles, 0, 0, columns * cell, rows * cell);
  if (cell < GAP_FROM) return picture;
  for (let column = 1; column <= columns; column++) g.clearRect(column * cell - 1, 0, 1, rows * cell);
  for (let row = 1; row <= rows; row++) g.clearRect(0, row * cell - 1, columns * cell, 1);
  g.lineWidth = 1.5;
  g.beginPath();
  for (const tile of crossed) {
    const at = tile - first;
    if (at < 0 || at >= count) continue;
    const [x, y] = [(at % columns) * cell, Math.floor(at / columns) * cell];
    g.moveTo(x + 2, y + 2);
    g.lineTo(x + cell - 3, y + cell - 3);
    g.moveTo(x + cell - 3, y + 2);
    g.lineTo(x + 2, y + cell - 3);
  }
  g.stroke();
  return picture;
}
