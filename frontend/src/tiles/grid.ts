// A grid of cells on a canvas, of any size: panned, zoomed, walked by keys.  Far away a cell is a pixel of an image;
// nearby it has a border, a hatch and a text.  What a cell means is said by the view that owns the grid.

import { colour, make } from "../core";

export interface Cells {
  rows: number;
  columns: number;
  /** Colour of a cell, as [red, green, blue, alpha]; null: the background. */
  fill(row: number, column: number): readonly [number, number, number, number] | null;
  /** What stands in a cell where there is room. */
  text?(row: number, column: number): string;
  /** Lines across a cell: "/", "\\", "x" for both, "-" for one that is masked off. */
  hatch?(row: number, column: number): string;
  /** Rectangles drawn above: rows and columns from, to; dashed ones are what was asked for. */
  frames?(): { from: [number, number]; to: [number, number]; colour: string; dashed: boolean; thin?: boolean }[];
}

export interface Events {
  /** The cursor moved, or the pointer is over a cell (null: over none). */
  at(row: number, column: number, how: "key" | "click"): void;
  hover(row: number | null, column: number): void;
  key?(event: KeyboardEvent): boolean;
}

const LARGEST = 2048;

/** Its canvas stands, at any depth, in an element of class `tsr-room`, whose width it may take. */
export class Grid {
  readonly canvas: HTMLCanvasElement;
  cursor: [number, number] | null = null;
  private cell = 0;
  private left = 0;
  private top = 0;
  private image: HTMLCanvasElement | null = null;
  private waiting = 0;
  /** The largest cell to begin with, where several grids are to have about one scale. */
  limit?: () => number;
  private observer: ResizeObserver;

  constructor(private root: HTMLElement, label: string, private cells: Cells, private events: Events, private most = 340, private widest = 30) {
    this.canvas = make("canvas", { class: "tsr-grid", tabindex: 0, role: "img", "aria-label": label, onkeydown: (e) => this.key(e), onwheel: (e) => this.wheel(e) });
    let held: [number, number] | null = null;
    let moved = false;
    this.canvas.addEventListener("pointerdown", (e) => ((held = [e.offsetX, e.offsetY]), (moved = false)));
    this.canvas.addEventListener("pointermove", (e) => {
      if (held && e.buttons) {
        if (Math.abs(e.offsetX - held[0]) + Math.abs(e.offsetY - held[1]) > 3) moved = true;
        if (moved) (this.left -= e.offsetX - held[0]), (this.top -= e.offsetY - held[1]), (held = [e.offsetX, e.offsetY]), this.redraw();
        return;
      }
      const place = this.place(e.offsetX, e.offsetY);
      this.events.hover(place ? place[0] : null, place ? place[1] : 0);
    });
    this.canvas.addEventListener("pointerleave", () => this.events.hover(null, 0));
    this.canvas.addEventListener("click", (e) => {
      const place = this.place(e.offsetX, e.offsetY);
      if (!moved && place) this.go(place[0], place[1], "click");
      held = null;
    });
    this.observer = new ResizeObserver(() => this.fit());
  }

  destroy(): void {
    this.observer.disconnect();
    cancelAnimationFrame(this.waiting);
  }

  /** Show other cells, or the same ones anew; the zoom stays where the size does. */
  show(cells: Cells): void {
    const around = this.canvas.closest(".tsr-room");
    if (around) this.observer.observe(around);
    const same = cells.rows === this.cells.rows && cells.columns === this.cells.columns;
    this.cells = cells;
    this.image = null;
    if (!same) this.cell = 0;
    this.canvas.hidden = !cells.rows || !cells.columns;
    this.fit();
  }

  /** Draw again soon, once. */
  redraw(): void {
    cancelAnimationFrame(this.waiting);
    this.waiting = requestAnimationFrame(() => this.draw());
  }

  /** Put the cursor on a cell and scroll to it. */
  point(row: number, column: number): void {
    this.cursor = [row, column];
    const [w, h] = [this.canvas.clientWidth, this.canvas.clientHeight];
    this.left = Math.min(Math.max(this.left, (column + 1) * this.cell - w), column * this.cell);
    this.top = Math.min(Math.max(this.top, (row + 1) * this.cell - h), row * this.cell);
    this.redraw();
  }

  zoom(factor: number, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2): void {
    const cell = Math.max(Math.min(this.whole(), this.cell), Math.min(64, this.cell * factor));
    this.left = (this.left + x) * (cell / this.cell) - x;
    this.top = (this.top + y) * (cell / this.cell) - y;
    this.cell = cell;
    this.fit();
  }

  /** The size of a cell with which everything is in sight, one pixel at least. */
  whole(): number {
    return Math.min(this.widest, this.room() / this.cells.columns, Math.max(1, this.most / this.cells.rows));
  }

  private room(): number {
    const around = this.canvas.closest<HTMLElement>(".tsr-room");
    if (!around) return 0;
    const { paddingLeft, paddingRight } = getComputedStyle(around);
    return around.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
  }

  private fit(): void {
    if (this.canvas.hidden || !this.room()) return;
    if (!this.cell) {
      this.cell = Math.min(this.whole(), this.limit?.() ?? Infinity);
      this.left = this.top = 0;
    }
    const height = Math.max(18, Math.min(this.most, Math.ceil(this.cells.rows * this.cell) + 1));
    const width = Math.max(20, Math.min(this.room(), Math.ceil(this.cells.columns * this.cell) + 1));
    if (this.canvas.style.height !== `${height}px`) this.canvas.style.height = `${height}px`;
    if (this.canvas.style.width !== `${width}px`) this.canvas.style.width = `${width}px`;
    this.redraw();
  }

  private place(x: number, y: number): [number, number] | null {
    const [row, column] = [Math.floor((y + this.top) / this.cell), Math.floor((x + this.left) / this.cell)];
    return row >= 0 && column >= 0 && row < this.cells.rows && column < this.cells.columns ? [row, column] : null;
  }

  private go(row: number, column: number, how: "key" | "click"): void {
    this.point(row, column);
    this.events.at(row, column, how);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const by = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0], Home: [0, -1e9], End: [0, 1e9] }[event.key];
    if (by) {
      const [row, column] = this.cursor ?? [0, by[1] > 0 ? -1 : 0];
      const clamp = (n: number, most: number): number => Math.max(0, Math.min(most - 1, n));
      this.go(clamp(row + by[0], this.cells.rows), clamp(column + by[1], this.cells.columns), "key");
    } else if (event.key === "+" || event.key === "=") this.zoom(1.4);
    else if (event.key === "-") this.zoom(1 / 1.4);
    else if (!this.events.key?.(event)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  private wheel(event: WheelEvent): void {
    if (event.ctrlKey) this.zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, event.offsetX, event.offsetY);
    else {
      const [left, top] = [this.left, this.top];
      this.left += event.shiftKey ? event.deltaY : event.deltaX;
      this.top += event.shiftKey ? 0 : event.deltaY;
      this.keepInside();
      if (left === this.left && top === this.top) return; // the page scrolls on
      this.redraw();
    }
    event.preventDefault();
  }

  private keepInside(): void {
    this.left = Math.max(0, Math.min(this.left, this.cells.columns * this.cell - this.canvas.clientWidth));
    this.top = Math.max(0, Math.min(this.top, this.cells.rows * this.cell - this.canvas.clientHeight));
  }

  /** All cells as an image of a pixel each, thinned where there are too many. */
  private picture(): [HTMLCanvasElement, number] {
    const { rows, columns, fill } = this.cells;
    const thin = Math.max(1, Math.ceil(rows / LARGEST), Math.ceil(columns / LARGEST));
    if (!this.image) {
      this.image = make("canvas", { width: Math.ceil(columns / thin), height: Math.ceil(rows / thin) });
      const draw = this.image.getContext("2d")!;
      const pixels = draw.createImageData(this.image.width, this.image.height);
      for (let row = 0, at = 0; row < rows; row += thin)
        for (let column = 0; column < columns; column += thin, at += 4) {
          const shade = fill.call(this.cells, row, column);
          if (shade) pixels.data.set(shade, at);
        }
      draw.putImageData(pixels, 0, 0);
    }
    return [this.image, thin];
  }

  private draw(): void {
    const ratio = devicePixelRatio || 1;
    const [w, h] = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (!w || !this.cell) return;
    if (this.canvas.width !== Math.round(w * ratio) || this.canvas.height !== Math.round(h * ratio)) (this.canvas.width = Math.round(w * ratio)), (this.canvas.height = Math.round(h * ratio));
    this.keepInside();
    const draw = this.canvas.getContext("2d")!;
    draw.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw.clearRect(0, 0, w, h);
    const [picture, thin] = this.picture();
    draw.imageSmoothingEnabled = this.cell * thin < 1;
    draw.drawImage(picture, -this.left, -this.top, picture.width * this.cell * thin, picture.height * this.cell * thin);
    const ink = colour(this.root, "--ink");
    if (this.cell >= 4) this.details(draw, w, h, ink);
    for (const frame of this.cells.frames?.() ?? []) {
      draw.strokeStyle = frame.colour;
      draw.lineWidth = frame.thin ? 1 : 2;
      draw.setLineDash(frame.dashed ? [5, 4] : []);
      // Around the cells where they are small, so that it hides none and is never too small to be seen.
      const out = this.cell < 4 ? 2 : -1;
      const [x, y] = [frame.from[1] * this.cell - this.left - out, frame.from[0] * this.cell - this.top - out];
      draw.strokeRect(x, y, (frame.to[1] - frame.from[1]) * this.cell + 2 * out, (frame.to[0] - frame.from[0]) * this.cell + 2 * out);
    }
    draw.setLineDash([]);
    if (this.cursor) {
      const size = Math.max(this.cell, 6);
      draw.strokeStyle = colour(this.root, "--bg");
      draw.lineWidth = 5;
      for (const _ of [0, 1]) {
        draw.strokeRect(this.cursor[1] * this.cell - this.left + 1, this.cursor[0] * this.cell - this.top + 1, size - 2, size - 2);
        draw.strokeStyle = ink;
        draw.lineWidth = 2;
      }
    }
  }

  private details(draw: CanvasRenderingContext2D, w: number, h: number, ink: string): void {
    const [firstRow, firstColumn] = [Math.max(0, Math.floor(this.top / this.cell)), Math.max(0, Math.floor(this.left / this.cell))];
    const lastRow = Math.min(this.cells.rows, Math.ceil((this.top + h) / this.cell));
    const lastColumn = Math.min(this.cells.columns, Math.ceil((this.left + w) / this.cell));
    draw.strokeStyle = colour(this.root, "--edge");
    draw.lineWidth = this.cell >= 7 ? 1 : 0.4;
    draw.beginPath();
    for (let row = firstRow; row <= lastRow; row++) draw.moveTo(firstColumn * this.cell - this.left, row * this.cell - this.top), draw.lineTo(lastColumn * this.cell - this.left, row * this.cell - this.top);
    for (let column = firstColumn; column <= lastColumn; column++) draw.moveTo(column * this.cell - this.left, firstRow * this.cell - this.top), draw.lineTo(column * this.cell - this.left, lastRow * this.cell - this.top);
    draw.stroke();
    if (this.cells.hatch && this.cell >= 5) {
      draw.strokeStyle = ink;
      draw.globalAlpha = 0.45;
      draw.lineWidth = 1;
      draw.beginPath();
      for (let row = firstRow; row < lastRow; row++)
        for (let column = firstColumn; column < lastColumn; column++) {
          const sign = this.cells.hatch(row, column);
          if (!sign) continue;
          const [x, y, s] = [column * this.cell - this.left, row * this.cell - this.top, this.cell];
          if (sign !== "\\" && sign !== "-") draw.moveTo(x + 1, y + s - 1), draw.lineTo(x + s - 1, y + 1);
          if (sign === "\\" || sign === "x") draw.moveTo(x + 1, y + 1), draw.lineTo(x + s - 1, y + s - 1);
          if (sign === "-") draw.moveTo(x + 2, y + s / 2), draw.lineTo(x + s - 2, y + s / 2);
        }
      draw.stroke();
      draw.globalAlpha = 1;
    }
    if (!this.cells.text || this.cell < 13) return;
    draw.fillStyle = ink;
    draw.textAlign = "center";
    draw.textBaseline = "middle";
    const size = Math.min(12, this.cell * 0.5);
    draw.font = `${size}px ${colour(this.root, "--mono")}`;
    const fit = Math.max(1, Math.floor(this.cell / (size * 1.1)));
    const room = Math.floor((this.cell - 2) / (size * 0.61));
    for (let row = firstRow; row < lastRow; row++)
      for (let column = firstColumn; column < lastColumn; column++) {
        const lines = this.cells.text(row, column).split("\n").filter((line) => line.length <= room).slice(0, fit);
        lines.forEach((line, n) => draw.fillText(line, column * this.cell - this.left + this.cell / 2, row * this.cell - this.top + (this.cell * (n + 1)) / (lines.length + 1)));
      }
  }
}

/** A colour such as "#56b4e9" or "rgb(1, 2, 3)" as numbers, mixed with transparency. */
export function rgba(text: string, alpha = 255): [number, number, number, number] {
  const hex = /^#(..)(..)(..)$/.exec(text);
  const [r, g, b] = hex ? hex.slice(1).map((part) => parseInt(part, 16)) : (text.match(/[\d.]+/g) ?? ["128", "128", "128"]).map(Number);
  return [r, g, b, alpha];
}
