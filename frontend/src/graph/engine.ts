// Layout by graphviz in the page (WebAssembly, in a worker), for live views where Python found no `dot`.

import type { Ask } from "../core";
import type { Epoch, Layout, Size, Slot } from "./types";
import { spread } from "./place";

interface Made { objects?: { name: string; pos: string }[]; edges?: { tail: number; head: number; pos: string }[] }
type Sized = (id: string) => Size;

/** Lay out a variant anew, with the boxes and links that Python gave with its own layout; null where that does not work.
 *  Regions that Python gave no links of, since they are large, keep the layout that they have. */
export async function byGraphviz(graphviz: Ask, layout: Layout, variant: string): Promise<Layout | null> {
  const scopes = layout.variants[variant];
  const size: Sized = (id) => {
    if (!layout.heads[id]) return layout.boxes[id] ?? [60, 30];
    const most = (i: 0 | 1): number => Math.max(0, ...(scopes[id] ?? []).map((each) => each.extent?.[i] ?? 0));
    return [Math.max(most(0) + 28, layout.heads[id][0]), most(1) + layout.heads[id][1] + 28];
  };
  const epochs = Object.values(scopes).flat().filter((epoch) => epoch.links?.length);
  const made: Made[] | null = await graphviz(epochs.map((epoch) => sourceOf(epoch, size)));
  if (!made || !epochs.length) return null;
  const rows = new Map(epochs.map((epoch, i) => [epoch, rowsOf(epoch, size, made[i])]));
  const anew = Object.fromEntries(Object.entries(scopes).map(([scope, all]) => [scope, all.map((epoch) => ({ ...epoch, rows: rows.get(epoch) ?? epoch.rows }))]));
  return { ...layout, engine: "graphviz, in the page", variants: { ...layout.variants, [variant]: anew } };
}

const idsOf = (epoch: Epoch): string[] => epoch.rows.flatMap((row) => row.filter((slot) => !slot[2]).map((slot) => slot[0]));

function sourceOf(epoch: Epoch, size: Sized): string {
  const ids = idsOf(epoch);
  const numbers = new Map(ids.map((id, i) => [id, i]));
  const boxes = ids.map((id, i) => `${i}[width=${(size(id)[0] / 72).toFixed(3)},height=${(size(id)[1] / 72).toFixed(3)}]`);
  const joined = epoch.links!.filter(([a, b]) => numbers.has(a) && numbers.has(b)).map(([a, b]) => `${numbers.get(a)}->${numbers.get(b)}`);
  const head = 'nodesep=.306;ranksep=.472;nslimit=.5;nslimit1=1;mclimit=.2;node[shape=box,fixedsize=true,label=""];edge[arrowhead=none]';
  return `digraph{${head};${[...boxes, ...joined].join(";")}}`;
}

function rowsOf(epoch: Epoch, size: Sized, made: Made): Slot[][] {
  const ids = idsOf(epoch);
  const middles = new Map((made.objects ?? []).map(({ name, pos }) => [Number(name), pos.split(",").map(Number)]));
  const heights = [...new Set([...middles.values()].map(([, y]) => y))].sort((a, b) => b - a);
  const rows: Slot[][] = heights.map(() => []);
  for (const [i, [x, y]] of middles) rows[heights.indexOf(y)].push([ids[i], x]);
  for (const { tail, head: end, pos } of made.edges ?? []) {
    const points = pos.split(" ").filter((part) => !/^[es],/.test(part)).map((part) => part.split(",").map(Number));
    const from = heights.indexOf(middles.get(tail)![1]), to = heights.indexOf(middles.get(end)![1]);
    for (let row = from + 1; row < to; row++) rows[row].push([ids[tail], crossing(points, heights[row]), ids[end]]);
  }
  return rows.map((row) => {
    const sorted = row.sort((a, b) => a[1] - b[1]);
    const xs = spread(sorted.map((slot) => slot[1]), sorted.map((slot) => (slot[2] ? 0 : size(slot[0])[0])), sorted.map((slot) => (slot[2] ? 10 : 22)));
    return sorted.map((slot, i) => (slot[2] ? [slot[0], xs[i], slot[2]] : [slot[0], xs[i]]));
  });
}

function crossing(points: number[][], y: number): number {
  for (let i = 1; i < points.length; i++) {
    const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
    if (Math.min(y0, y1) <= y && y <= Math.max(y0, y1) && y0 !== y1) return x0 + ((x1 - x0) * (y - y0)) / (y1 - y0);
  }
  return points.reduce((a, b) => (Math.abs(b[1] - y) < Math.abs(a[1] - y) ? b : a))[0];
}
