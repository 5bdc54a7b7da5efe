// The roofline: operations a second over operations a byte, both logarithmic.
import { make, register, svg, table, PALETTE, type Context } from "../core";
import style from "./roofline.css";

interface Point { name: string; intensity: number; rate: number; attained: number; roof: number; bound: string }
interface Payload {
  title: string;
  text: string;
  bandwidth: number;
  source: string;
  roofs: { kind: string; rate: number }[];
  points: Point[];
  told: string[];
}

const [W, H, LEFT, RIGHT, TOP, BOTTOM] = [820, 360, 76, 16, 14, 40];
const flops = (rate: number): string => {
  for (const [size, unit] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]] as [number, string][]) if (rate >= size) return `${Number((rate / size).toPrecision(3))} ${unit}FLOP/s`;
  return `${Number(rate.toPrecision(3))} FLOP/s`;
};

function mount(root: HTMLElement, data: Payload, _: Context) {
  const status = make("div", { class: "tsr-foot", role: "status", "aria-live": "polite" }, data.told[0] ?? data.text);
  const placed = data.points.filter((each) => each.intensity > 0 && each.rate > 0);
  const xs = [...placed.map((each) => each.intensity), ...data.roofs.map((each) => each.rate / data.bandwidth)];
  const ys = [...placed.map((each) => each.rate), ...data.roofs.map((each) => each.rate)];
  const [x0, x1] = [Math.floor(Math.log10(Math.min(...xs)) - 0.6), Math.ceil(Math.log10(Math.max(...xs)) + 0.4)];
  const [y0, y1] = [Math.floor(Math.log10(Math.min(...ys)) - 0.3), Math.ceil(Math.log10(Math.max(...ys)) + 0.2)];
  const x = (value: number): number => LEFT + ((Math.log10(value) - x0) / (x1 - x0)) * (W - LEFT - RIGHT);
  const y = (value: number): number => H - BOTTOM - ((Math.log10(value) - y0) / (y1 - y0)) * (H - TOP - BOTTOM);
  const parts: SVGElement[] = [];
  for (let n = x0; n <= x1; n++) parts.push(svg("line", { class: "tsr-gridline", x1: x(10 ** n), x2: x(10 ** n), y1: TOP, y2: H - BOTTOM }), svg("text", { x: x(10 ** n), y: H - BOTTOM + 16, "text-anchor": "middle" }, String(Number((10 ** n).toPrecision(1)))));
  for (let n = y0; n <= y1; n++) parts.push(svg("line", { class: "tsr-gridline", x1: LEFT, x2: W - RIGHT, y1: y(10 ** n), y2: y(10 ** n) }), svg("text", { x: LEFT - 6, y: y(10 ** n) + 4, "text-anchor": "end" }, flops(10 ** n)));
  parts.push(svg("text", { x: (LEFT + W) / 2, y: H - 6, "text-anchor": "middle" }, "operations for each byte that memory must move"));
  const top = Math.max(...data.roofs.map((each) => each.rate));
  const edge = 10 ** x0;
  const foot = Math.max(edge, 10 ** y0 / data.bandwidth);
  parts.push(svg("line", { class: "tsr-line", x1: x(foot), y1: y(foot * data.bandwidth), x2: x(top / data.bandwidth), y2: y(top) }));
  const mid = Math.sqrt(foot * (top / data.bandwidth));
  const angle = (-Math.atan2(y(foot * data.bandwidth) - y(top), x(top / data.bandwidth) - x(foot)) * 180) / Math.PI;
  parts.push(svg("text", { x: x(mid), y: y(mid * data.bandwidth) - 6, "text-anchor": "middle", transform: `rotate(${angle} ${x(mid)} ${y(mid * data.bandwidth) - 6})` }, `memory ${Number((data.bandwidth / 1e9).toPrecision(3))} GB/s`));
  for (const roof of data.roofs) {
    parts.push(svg("line", { class: "tsr-line", x1: x(roof.rate / data.bandwidth), x2: W - RIGHT, y1: y(roof.rate), y2: y(roof.rate) }));
    parts.push(svg("text", { x: W - RIGHT - 4, y: y(roof.rate) - 5, "text-anchor": "end" }, `${roof.kind} ${flops(roof.rate)}`));
  }
  const dots: SVGElement[] = [];
  placed.forEach((point, n) => {
    const best = Math.min(point.intensity * data.bandwidth, point.roof || Infinity);
    const told = data.told[data.points.indexOf(point)];
    if (best > point.rate) parts.push(svg("line", { class: "tsr-gap", x1: x(point.intensity), x2: x(point.intensity), y1: y(best), y2: y(point.rate) }));
    const choose = (): void => {
      dots.forEach((dot, i) => dot.classList.toggle("tsr-on", i === n));
      status.textContent = `${point.name}: ${told}`;
    };
    const key = (event: KeyboardEvent): void => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose();
    };
    const dot = svg("circle", { class: "tsr-point", r: 6.5, cx: x(point.intensity), cy: y(point.rate), style: `--hue:${PALETTE[n % PALETTE.length]}`, tabindex: 0, role: "button", "aria-label": `${point.name}: ${told}`, onclick: choose, onkeydown: key, onfocus: choose }, svg("title", {}, `${point.name}: ${told}`));
    dots.push(dot);
    parts.push(svg("text", { class: "tsr-said", x: x(point.intensity) + 11, y: y(point.rate) + 14 }, `${point.name}: ${Math.round(point.attained * 100)}%`));
  });
  root.append(
    make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, data.title)),
    make("div", { class: "tsr-roof" }, svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "group", "aria-label": data.told.join("; ") }, ...parts, ...dots)),
    make("div", { class: "tsr-soft", style: "padding:0 10px 4px" }, `roofs: ${data.source}`),
    make("details", {}, make("summary", {}, "as a table"), make("div", { style: "padding:0 10px" },
      table(["roof", "at best"], [["memory", `${Number((data.bandwidth / 1e9).toPrecision(3))} GB/s`], ...data.roofs.map((each) => [each.kind, flops(each.rate)])], [1]),
      table(["launch", ""], data.points.map((each, n) => [each.name, data.told[n]])))),
    status);
  return {};
}

register("roofline", mount, style);
