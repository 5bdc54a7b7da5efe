// The drawing: SVG, of which only what is in sight is elements; boxes keep their elements from step to step, so that what
// moves is seen moving.

import { svg, PALETTE } from "../core";
import type { Badge, Item, Scene } from "./types";
import type { Box, Placed, Wire } from "./place";

export interface Marks { chosen: string | null; traced: Set<string> | null; found: Set<string>; others: Set<string>; changes: boolean }
export interface Camera { x: number; y: number; k: number }

/** Signs of styles: colour is never alone. */
export const SIGNS: Record<string, string> = {
  memory: "▤", load: "↓", store: "↑", mma: "⊗", compute: "ƒ", move: "⇄", barrier: "‖", control: "◇", argument: "↻", index: "#", constant: "=",
};
export const CHANGES: Record<string, string> = { added: "+", removed: "−", changed: "~", moved: "↔" };
const MARGIN = 120;
let graphs = 0;

export class Drawing {
  readonly root: SVGSVGElement;
  readonly name = `tsr-graph-${graphs++}`;
  camera: Camera = { x: 0, y: 0, k: 1 };
  private readonly view = svg("g");
  private readonly layers = { regions: svg("g"), wires: svg("g"), nodes: svg("g") };
  private readonly drawn = new Map<string, { element: SVGGElement; of: Item; text: string }>();
  private readonly lines = new Map<string, SVGPathElement>();
  private placed: Placed = { boxes: new Map(), wires: [], width: 0, height: 0 };
  private scene!: Scene;
  private marks!: Marks;
  private order: Box[] = [];

  constructor(private readonly pressed: (id: string, toggle: boolean) => void) {
    const head = (id: string, klass: string) =>
      svg("marker", { id: `${this.name}-${id}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse", class: klass }, svg("path", { d: "M0 .8 7.5 4 0 7.2z" }));
    this.view.append(this.layers.regions, this.layers.wires, this.layers.nodes);
    this.root = svg("svg", { class: "tsr-g-svg", "aria-hidden": "false" }, svg("defs", {}, head("end", "tsr-g-head"), head("lit", "tsr-g-head tsr-lit")), this.view);
  }

  idOf(node: string): string {
    return `${this.name}-${[...node].map((c) => (/[\w-]/.test(c) ? c : `_${c.charCodeAt(0)}`)).join("")}`;
  }

  show(scene: Scene, placed: Placed, marks: Marks): void {
    [this.scene, this.placed, this.marks] = [scene, placed, marks];
    this.order = [...placed.boxes.values()].sort((a, b) => a.depth - b.depth);
    this.layers.wires.replaceChildren();
    this.lines.clear();
    this.update();
  }

  mark(marks: Marks): void {
    this.marks = marks;
    for (const [id, { element }] of this.drawn) this.paint(element, id);
    for (const wire of this.placed.wires) this.paintWire(wire);
  }

  /** Draw what is in sight. */
  update(): void {
    const { x, y, k } = this.camera;
    this.view.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${k.toFixed(4)})`);
    this.root.classList.toggle("tsr-g-far", k < 0.42);
    const [left, top] = [(-x - MARGIN) / k, (-y - MARGIN) / k];
    const [right, bottom] = [left + (this.root.clientWidth + 2 * MARGIN) / k, top + (this.root.clientHeight + 2 * MARGIN) / k];
    const sees = (l: number, t: number, r: number, b: number) => r > left && l < right && b > top && t < bottom;
    const kept = new Set<string>();
    for (const box of this.order) {
      if (!sees(box.x, box.y, box.x + box.w, box.y + box.h)) continue;
      kept.add(box.id);
      this.drawBox(box);
    }
    for (const [id, { element }] of this.drawn)
      if (!kept.has(id)) {
        element.remove();
        this.drawn.delete(id);
      }
    for (const wire of this.placed.wires) {
      const seen = sees(wire.left, wire.top, wire.right, wire.bottom), line = this.lines.get(wire.id);
      if (seen && !line) this.drawWire(wire);
      else if (!seen && line) {
        line.remove();
        this.lines.delete(wire.id);
      }
    }
  }

  private drawBox(box: Box): void {
    const item = (box.region ? this.scene.regions : this.scene.nodes).get(box.id)!;
    const change = this.scene.changes[box.id]?.[0] ?? "";
    const text = `${box.w},${box.h},${box.open},${change}`;
    const known = this.drawn.get(box.id);
    let element = known?.element;
    if (!known || known.of !== item || known.text !== text) {
      const made = box.region ? this.regionOf(box, item, change) : this.nodeOf(box, item, change);
      if (element) element.replaceChildren(...made.childNodes);
      else element = made;
      for (const name of ["class", "aria-label", "data-change"]) element.setAttribute(name, made.getAttribute(name) ?? "");
      this.drawn.set(box.id, { element, of: item, text });
    }
    element!.style.transform = `translate(${box.x.toFixed(1)}px,${box.y.toFixed(1)}px)`;
    const layer = box.open ? this.layers.regions : this.layers.nodes;
    if (element!.parentNode !== layer) layer.append(element!);
    this.paint(element!, box.id);
  }

  private paint(element: SVGGElement, id: string): void {
    const { chosen, traced, found, others, changes } = this.marks;
    element.classList.toggle("tsr-g-chosen", id === chosen);
    element.classList.toggle("tsr-g-dim", traced !== null && !traced.has(id) && !this.placed.boxes.get(id)?.open);
    element.classList.toggle("tsr-g-hit", found.has(id));
    element.classList.toggle("tsr-g-other", others.has(id));
    element.classList.toggle("tsr-g-quiet", !changes);
  }

  private frame(box: Box, item: Item, klass: string, said: string): SVGGElement {
    const element = svg("g", { id: this.idOf(item.id), class: klass, "data-node": item.id, role: box.region ? "group" : "img", "aria-label": said });
    element.addEventListener("click", (event) => {
      event.stopPropagation();
      this.pressed(item.id, (event.target as Element).closest(".tsr-g-toggle") !== null);
    });
    if (box.region) element.addEventListener("dblclick", () => this.pressed(item.id, true));
    return element;
  }

  private nodeOf(box: Box, item: Item, change: string): SVGGElement {
    const said = sayNode(item, change);
    const element = this.frame(box, item, `tsr-g-node tsr-s-${item.style}`, said);
    element.dataset.change = change;
    const most = Math.floor((box.w - 32) / 7.3), wide = Math.floor((box.w - 18) / 6.25);
    element.append(
      svg("title", {}, said),
      svg("rect", { class: "tsr-g-box", width: box.w, height: box.h, rx: item.style === "memory" ? 12 : 5 }),
      svg("text", { class: "tsr-g-sign", x: box.w - 9, y: 20, "text-anchor": "end" }, SIGNS[item.style!] ?? ""),
      svg("text", { class: "tsr-g-label", x: 9, y: 20 }, clipped(item.label, most)),
      ...(item.note ? [svg("text", { class: "tsr-g-note", x: 9, y: 34 }, clipped(item.note, wide))] : []),
      ...item.badges.map((badge, i) => chip(badge, item.chips[i])),
      ...(change ? [changeSign(change, -5, -4)] : []),
    );
    return element;
  }

  private regionOf(box: Box, item: Item, change: string): SVGGElement {
    const said = `${box.open ? "open" : "closed"} region ${item.label}${change ? `, ${change} by this pass` : ""}`;
    const element = this.frame(box, item, `tsr-g-region ${box.open ? "tsr-open" : "tsr-closed"}`, said);
    element.dataset.change = change;
    const inside = box.open ? [] : [svg("text", { class: "tsr-g-note", x: 30, y: 34 }, `${this.inside(item.id)} inside`)];
    const toggle = svg("g", { class: "tsr-g-toggle", role: "button", tabindex: 0, "aria-expanded": String(box.open), "aria-label": `${box.open ? "close" : "open"} ${item.label}`, transform: "translate(7 6)" },
      svg("rect", { width: 16, height: 16, rx: 3 }), svg("text", { x: 8, y: 12, "text-anchor": "middle" }, box.open ? "−" : "+"));
    toggle.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      event.stopPropagation();
      this.pressed(item.id, true);
    });
    element.append(
      svg("title", {}, said),
      svg("rect", { class: "tsr-g-box", width: box.w, height: box.h, rx: 8 }),
      svg("text", { class: "tsr-g-label", x: 30, y: 19 }, clipped(item.label, Math.floor((box.w - 40) / 7.3))),
      ...inside,
      ...(box.open ? item.badges.map((badge, i) => chip(badge, item.chips[i])) : []),
      toggle,
      ...(change ? [changeSign(change, -5, -4)] : []),
    );
    return element;
  }

  private inside(region: string): string {
    let count = 0;
    for (const id of this.scene.nodes.keys())
      for (let at = this.scene.places.get(id) ?? ""; at; at = this.scene.places.get(at) ?? "") if (at === region) count++;
    return `${count} operation${count === 1 ? "" : "s"}`;
  }

  private drawWire(wire: Wire): void {
    const said = `${wire.link.label || wire.link.style}${wire.count > 1 ? ` and ${wire.count - 1} more` : ""}`;
    const line = svg("path", { d: wire.path, "data-from": wire.source, "data-to": wire.target, "stroke-width": Math.min(4, 1.3 + Math.log2(wire.count)) }, svg("title", {}, said));
    this.lines.set(wire.id, line);
    this.layers.wires.append(line);
    this.paintWire(wire);
  }

  private paintWire(wire: Wire): void {
    const line = this.lines.get(wire.id);
    if (!line) return;
    const { chosen, traced } = this.marks;
    const lit = traced ? traced.has(wire.source) && traced.has(wire.target) : chosen !== null && (wire.source === chosen || wire.target === chosen);
    line.setAttribute("class", `tsr-g-wire tsr-e-${wire.link.style}${lit ? " tsr-lit" : traced ? " tsr-g-dim" : ""}`);
    line.setAttribute("marker-end", `url(#${this.name}-${lit ? "lit" : "end"})`);
  }
}

/** A decision: a label, with the stages of a circular buffer as segments of a ring. */
export function chip(badge: Badge, [x, y, width]: [number, number, number]): SVGGElement {
  const number = /^(?:carried )?layout L(\d+)$/.exec(badge.text)?.[1];
  const hue = number ? PALETTE[(Number(number) - 1) % PALETTE.length] : null;
  const ring = badge.ring ? segments(badge.ring, 11, 8) : [];
  return svg("g", { class: `tsr-g-chip tsr-b-${badge.kind}`, transform: `translate(${x} ${y})`, style: hue ? `--hue:${hue}` : null },
    svg("title", {}, badge.detail ? `${badge.text}\n${badge.detail}` : badge.text),
    svg("rect", { width, height: 16, rx: 8 }), ...ring,
    svg("text", { x: badge.ring ? 20 : 6, y: 11.5 }, badge.text));
}

function segments(count: number, x: number, y: number): SVGElement[] {
  const gap = count > 1 ? 0.32 : 0;
  return Array.from({ length: count }, (_, i) => {
    const [a, b] = [(i / count) * 2 * Math.PI - Math.PI / 2 + gap / 2, ((i + 1) / count) * 2 * Math.PI - Math.PI / 2 - gap / 2 - (count === 1 ? 0.01 : 0)];
    const at = (angle: number) => `${(x + 5 * Math.cos(angle)).toFixed(2)} ${(y + 5 * Math.sin(angle)).toFixed(2)}`;
    return svg("path", { class: "tsr-g-ring", d: `M${at(a)}A5 5 0 ${b - a > Math.PI ? 1 : 0} 1 ${at(b)}` });
  });
}

function changeSign(change: string, x: number, y: number): SVGGElement {
  return svg("g", { class: `tsr-g-change tsr-is-${change}`, transform: `translate(${x} ${y})` },
    svg("title", {}, `${change} by this pass`), svg("circle", { cx: 5, cy: 5, r: 7.5 }), svg("text", { x: 5, y: 9, "text-anchor": "middle" }, CHANGES[change] ?? "~"));
}

export function sayNode(item: Item, change = ""): string {
  const parts = [item.label, item.note, ...item.badges.map((badge) => badge.text), change && `${change} by this pass`];
  return parts.filter(Boolean).join(", ");
}

export const clipped = (text: string, most: number): string => (text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text);
