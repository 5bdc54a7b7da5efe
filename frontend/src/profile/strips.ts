// Columns of one pixel by how full they are, drawn as pictures: a rectangle for each of a hundred thousand would take
// twice as long as everything else.
const SHADES = 4;

interface Strip {
  alphas: Uint8ClampedArray;
  y: number;
  height: number;
}

export class Strips {
  private readonly picture = document.createElement("canvas");
  private waiting: Strip[] = [];

  /** Take one strip: how much of each column is covered, of at most `most`; `opacity` is that of all. */
  add(covered: Float32Array, most: number, y: number, height: number, opacity: number): void {
    const alphas = new Uint8ClampedArray(covered.length);
    let seen = false;
    for (let x = 0; x < covered.length; x++) {
      if (!(covered[x] > 0)) continue;
      const shade = Math.min(SHADES, Math.ceil((SHADES * covered[x]) / most));
      alphas[x] = 255 * (0.25 + (0.75 / SHADES) * shade) * opacity;
      seen = true;
    }
    if (seen) this.waiting.push({ alphas, y, height });
  }

  /** Draw the strips that were added, from `left` on, and forget them. */
  draw(g: CanvasRenderingContext2D, left: number, colour: string): void {
    const strips = this.waiting;
    this.waiting = [];
    if (!strips.length) return;
    const { picture } = this;
    const width = (picture.width = strips[0].alphas.length);
    picture.height = strips.length;
    const brush = picture.getContext("2d")!;
    const image = brush.createImageData(width, strips.length);
    strips.forEach((strip, row) => strip.alphas.forEach((alpha, x) => (image.data[4 * (row * width + x) + 3] = alpha)));
    brush.putImageData(image, 0, 0);
    brush.globalCompositeOperation = "source-in"; // keeps what is opaque, in this colour
    brush.fillStyle = colour;
    brush.fillRect(0, 0, width, strips.length);
    g.imageSmoothingEnabled = false;
    strips.forEach((strip, row) => g.drawImage(picture, 0, row, width, 1, left, strip.y, width, strip.height));
  }
}
