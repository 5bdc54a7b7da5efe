// Coordinates from rows: Python (or graphviz in the page) says which row and where in it; here open and closed regions
// get their sizes, and boxes move apart.  The rules are those of tessera/viz/graph/placing.py and layout.py.

import type { Epoch, Layout, Link, Scene, Slot } from "./types";
import { seenAs } from "./types";

export interface Box { id: string; x: number; y: number; w: number; h: number; region: boolean; open: boolean; head: number; depth: number; row: number }
export interface Wire { id: string; path: string; link: Link; source: string; target: string; count: number; left: number; top: number; right: number; bottom: number }
export interface Placed { boxes: Map<string, Box>; wires: Wire[]; width: number; height: number }

const COLUMN = 22, ROW = 34, INSET = 14, PASSING = 10;

interface Inner { w: number; h: number; boxes: Box[]; ways: Map<string, [number, number, number][]> }
const key = (a: string, b: string): string => `${a}\n${b}`;

/** Middles as near to `wanted` as the widths allow, in this order (pooling adjacent violators). */
export function spread(wanted: number[], widths: number[], gaps: number[]): number[] {
  const offsets = [0];
  for (let i = 1; i < wanted.length; i++) offsets.push(offsets[i - 1] + (widths[i - 1] + widths[i]) / 2 + gaps[i]);
  const pools: [number, number][] = [];
  wanted.forEach((place, i) => {
    let pool: [number, number] = [place - offsets[i], 1];
    while (pools.length && pools.at(-1)![0] / pools.at(-1)![1] >= pool[0] / pool[1]) {
      const last = pools.pop()!;
      pool = [pool[0] + last[0], pool[1] + last[1]];
    }
    pools.push(pool);
  });
  const places = pools.flatMap(([total, count]) => Array<number>(count).fill(total / count));
  return places.map((place, i) => place + offsets[i]);
}

const gapsOf = (row: Slot[]): number[] => row.map((slot, i) => (slot[2] || (i && row[i - 1][2]) ? PASSING : COLUMN));

/** Bring rows closer where a closed region left them wide: each place goes to the mean of what it is joined with. */
function relax(rows: Slot[][], widths: number[][], near: Map<string, string[]>): number[][] {
  const xs = rows.map((row, r) => spread(row.map((_, i) => i), widths[r], gapsOf(row)).map((x, _, all) => x - (all[0] + all.at(-1)!) / 2));
  const at = rows.map((row) => new Map(row.map((slot, i) => [key(slot[0], slot[2] ?? ""), i])));
  for (let sweep = 0; sweep < 7; sweep++) {
    const down = sweep % 2 === 0;
    for (let step = 0; step < rows.length; step++) {
      const r = down ? step : rows.length - 1 - step;
      const wanted = rows[r].map((slot, i) => {
        const found: number[] = [];
        for (const other of near.get(key(slot[0], slot[2] ?? "")) ?? [])
          for (const row of sweep === 6 ? [r - 1, r + 1] : [down ? r - 1 : r + 1]) {
            const there = at[row]?.get(other);
            if (there !== undefined) found.push(xs[row][there]);
          }
        return found.length ? found.reduce((a, b) => a + b) / found.length : xs[r][i];
      });
      xs[r] = spread(wanted, widths[r], gapsOf(rows[r]));
    }
  }
  return xs;
}

export function place(layout: Layout, variant: string, scene: Scene, closed: Set<string>): Placed {
  const scopes = layout.variants[variant] ?? layout.variants.main;
  const epochOf = (scope: string): Epoch | undefined => (scopes[scope] ?? []).filter((epoch) => epoch.first <= scene.number).at(-1);
  const lifted = liftAll(scene);

  const inner = (scope: string, depth: number): Inner => {
    const rows = epochOf(scope)?.rows ?? [];
    const children = new Map<string, Inner>();
    let changed = false;
    const size = (id: string): [number, number] => {
      if (!layout.heads[id]) return layout.boxes[id] ?? [60, 30];
      if (closed.has(id)) return (changed = true), layout.closed[id];
      if (!children.has(id)) children.set(id, inner(id, depth + 1));
      const child = children.get(id)!;
      const [least, lowest] = layout.closed[id];
      return [Math.max(child.w + 2 * INSET, layout.heads[id][0], least), Math.max(child.h + layout.heads[id][1] + 2 * INSET, lowest)];
    };
    const sizes = rows.map((row) => row.map((slot) => (slot[2] ? ([0, 0] as [number, number]) : size(slot[0]))));
    const widths = sizes.map((row) => row.map(([w]) => w));
    const xs = changed
      ? relax(rows, widths, nearOf(rows, lifted.get(scope) ?? []))
      : rows.map((row, r) => spread(row.map((slot) => slot[1]), widths[r], gapsOf(row)));
    const left = Math.min(0, ...xs.flatMap((row, r) => row.map((x, i) => x - widths[r][i] / 2)));
    const shift = changed || left < 0 ? -Math.min(...xs.flatMap((row, r) => row.map((x, i) => x - widths[r][i] / 2))) : 0;
    const boxes: Box[] = [];
    const ways: Inner["ways"] = new Map();
    let y = 0, w = 0;
    rows.forEach((row, r) => {
      const high = Math.max(0, ...sizes[r].map(([, h]) => h));
      row.forEach((slot, i) => {
        const x = xs[r][i] + shift, [wide, tall] = sizes[r][i];
        w = Math.max(w, x + wide / 2);
        if (slot[2]) {
          const way = key(slot[0], slot[2]);
          ways.set(way, [...(ways.get(way) ?? []), [x, y, y + high]]);
          return;
        }
        const region = slot[0] in layout.heads, open = region && !closed.has(slot[0]);
        const box: Box = { id: slot[0], x: x - wide / 2, y: y + (high - tall) / 2, w: wide, h: tall, region, open, head: open ? layout.heads[slot[0]][1] : 0, depth, row: r };
        boxes.push(box);
        const child = open ? children.get(slot[0]) : undefined;
        if (!child) return;
        const dx = box.x + (wide - child.w) / 2, dy = box.y + box.head + INSET;
        for (const each of child.boxes) boxes.push({ ...each, x: each.x + dx, y: each.y + dy });
        for (const [name, points] of child.ways) ways.set(name, points.map(([px, a, b]) => [px + dx, a + dy, b + dy]));
      });
      y += high + ROW;
    });
    return { w, h: Math.max(0, y - ROW), boxes, ways };
  };

  const all = inner("", 0);
  const boxes = new Map(all.boxes.filter((box) => scene.nodes.has(box.id) || scene.regions.has(box.id)).map((box) => [box.id, box]));
  return { boxes, wires: wiresOf(scene, closed, boxes, all.ways), width: all.w, height: all.h };
}

/** For each region, the pairs of what stands in it that an edge joins; the ends themselves may be deeper. */
function liftAll(scene: Scene): Map<string, [string, string][]> {
  const found = new Map<string, [string, string][]>();
  for (const link of scene.links) {
    const pair = lift(scene, link.source, link.target);
    if (pair && link.style !== "carried") found.set(pair[0], [...(found.get(pair[0]) ?? []), [pair[1], pair[2]]]);
  }
  return found;
}

/** The region in which both ends stand, and what they stand in there. */
export function lift(scene: Scene, source: string, target: string): [string, string, string] | null {
  const mine = new Map<string, string>();
  for (let at = source; at; at = scene.places.get(at) ?? "") mine.set(scene.places.get(at) ?? "", at);
  for (let at = target; at; at = scene.places.get(at) ?? "") {
    const place = scene.places.get(at) ?? "";
    const other = mine.get(place);
    if (other !== undefined) return other === at ? null : [place, other, at];
  }
  return null;
}

function nearOf(rows: Slot[][], links: [string, string][]): Map<string, string[]> {
  const near = new Map<string, string[]>();
  const join = (a: string, b: string) => {
    near.set(a, [...(near.get(a) ?? []), b]);
    near.set(b, [...(near.get(b) ?? []), a]);
  };
  const passing = new Set(rows.flatMap((row) => row.filter((slot) => slot[2]).map((slot) => key(slot[0], slot[2]!))));
  for (const [a, b] of links)
    if (passing.has(key(a, b))) {
      join(key(a, ""), key(a, b));
      join(key(b, ""), key(a, b));
      join(key(a, b), key(a, b));
    } else join(key(a, ""), key(b, ""));
  return near;
}

function wiresOf(scene: Scene, closed: Set<string>, boxes: Map<string, Box>, ways: Inner["ways"]): Wire[] {
  const wires = new Map<string, Wire>();
  for (const link of scene.links) {
    const source = seenAs(scene, link.source, closed), target = seenAs(scene, link.target, closed);
    if (source === target || !boxes.has(source) || !boxes.has(target)) continue;
    const id = `${source}\n${target}\n${link.style}`;
    const known = wires.get(id);
    if (known) known.count++;
    else wires.set(id, { id, path: "", link, source, target, count: 1, left: 0, top: 0, right: 0, bottom: 0 });
  }
  const all = [...wires.values()];
  const outs = ends(all, boxes, "source", "target"), ins = ends(all, boxes, "target", "source");
  for (const wire of all) route(scene, wire, boxes, ways, outs.get(wire)!, ins.get(wire)!);
  return all;
}

/** Where each wire meets its box: side by side, in the order of the other ends. */
function ends(wires: Wire[], boxes: Map<string, Box>, mine: "source" | "target", other: "source" | "target"): Map<Wire, number> {
  const groups = new Map<string, Wire[]>();
  for (const wire of wires) if (wire.link.style !== "carried") groups.set(wire[mine], [...(groups.get(wire[mine]) ?? []), wire]);
  const middle = (wire: Wire) => boxes.get(wire[other])!.x + boxes.get(wire[other])!.w / 2;
  const found = new Map<Wire, number>(wires.map((wire) => [wire, 0]));
  for (const [id, group] of groups) {
    const box = boxes.get(id)!;
    const step = Math.min(18, (box.w * 0.7) / Math.max(1, group.length));
    group.sort((a, b) => middle(a) - middle(b)).forEach((wire, i) => found.set(wire, box.x + box.w / 2 + (i - (group.length - 1) / 2) * step));
  }
  return found;
}

function route(scene: Scene, wire: Wire, boxes: Map<string, Box>, ways: Inner["ways"], outX: number, inX: number): void {
  const from = boxes.get(wire.source)!, to = boxes.get(wire.target)!;
  const n = (value: number): string => value.toFixed(1);
  const into = to.open && !from.open && contains(scene, to.id, from.id);
  if (wire.link.style === "carried") {
    // Back up along the border that is nearer to where it ends: from the end of an iteration to the begin of the next.
    const around = boxes.get(scene.places.get(wire.target) ?? "");
    const [least, most] = around ? [around.x + 5, around.x + around.w - 5] : [Math.min(from.x, to.x) - 16, Math.max(from.x + from.w, to.x + to.w) + 16];
    const left = to.x - least < most - to.x - to.w;
    const [side, x0, x1, sign] = left ? [least, from.x, to.x - 2, 1] : [most, from.x + from.w, to.x + to.w + 2, -1];
    const [y0, y1] = [from.y + from.h / 2, to.y + to.h / 2];
    const round = Math.min(10, Math.abs(y0 - y1) / 2), up = y1 < y0 ? 1 : -1;
    wire.path = `M${n(x0)} ${n(y0)}H${n(side + sign * round)}Q${n(side)} ${n(y0)} ${n(side)} ${n(y0 - up * round)}V${n(y1 + up * round)}Q${n(side)} ${n(y1)} ${n(side + sign * Math.min(round, 6))} ${n(y1)}H${n(x1)}`;
    [wire.left, wire.right, wire.top, wire.bottom] = [Math.min(side, from.x, to.x), Math.max(side, from.x, to.x), Math.min(y0, y1), Math.max(y0, y1)];
    return;
  }
  let [x, y] = [outX, from.y + from.h];
  const endY = (into ? to.y + to.h : to.y) - 2;
  let path = `M${n(x)} ${n(y)}`;
  let [least, most] = [Math.min(x, inX), Math.max(x, inX)];
  const curve = (toX: number, toY: number) => {
    const bend = Math.max(10, Math.abs(toY - y) / 2);
    path += `C${n(x)} ${n(y + bend)} ${n(toX)} ${n(toY - bend)} ${n(toX)} ${n(toY)}`;
    [x, y] = [toX, toY];
  };
  const pair = lift(scene, wire.source, wire.target);
  for (const [wayX, top, bottom] of (pair && ways.get(key(pair[1], pair[2]))) || []) {
    if (top < y) continue;
    curve(wayX, top);
    path += `V${n((y = bottom))}`;
    [least, most] = [Math.min(least, wayX), Math.max(most, wayX)];
  }
  curve(inX, endY);
  wire.path = path;
  [wire.left, wire.right, wire.top, wire.bottom] = [least, most, Math.min(from.y, to.y), Math.max(from.y + from.h, to.y + to.h)];
}

function contains(scene: Scene, outer: string, inner: string): boolean {
  for (let at = inner; at; at = scene.places.get(at) ?? "") if (at === outer) return true;
  return false;
}
