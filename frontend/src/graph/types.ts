// The payload of the graph view (tessera/viz/graph/view.py), and one step of it with everything by identity.

export interface Badge { kind: string; text: string; detail: string; ring: number }
export interface Port { id: string; label: string; type: string }
export interface Keys { ops: number[]; records: string[]; lines: number[] }
export interface Item {
  id: string; label: string; place: string; badges: Badge[]; chips: [number, number, number][]; keys: Keys; facts: [string, string][];
  note?: string; style?: string; inputs?: Port[]; outputs?: Port[];
}
export interface Link { source: string; target: string; style: string; label: string }
/** A place in a row: the middle of a box, or where the edge to `to` passes. */
export type Slot = [id: string, x: number, to?: string];
/** `links` and `extent` are there where graphviz may lay it out in the page. */
export interface Epoch { first: number; rows: Slot[][]; links?: [string, string][]; extent?: Size }
export type Size = [width: number, height: number];
export interface Layout {
  engine: string; boxes: Record<string, Size>; heads: Record<string, Size>; closed: Record<string, Size>;
  variants: Record<string, Record<string, Epoch[]>>;
}
export interface Payload {
  title: string; text: string; group: string; program: string; first: number; legend: Record<string, string>;
  styles: Record<string, string>; edges: Record<string, string>; folded: Record<string, string>; closed: string[];
  nodes: Item[]; regions: Item[]; links: Link[];
  steps: { name: string; told: string; nodes: number[]; regions: number[]; links: number[]; changes: Record<string, [string, string[]]> }[];
  layout: Layout;
}

/** One step. */
export interface Scene {
  number: number;
  nodes: Map<string, Item>;
  regions: Map<string, Item>;
  links: Link[];
  changes: Record<string, [string, string[]]>;
  /** What each thing stands in. */
  places: Map<string, string>;
}

export function sceneOf(data: Payload, number: number): Scene {
  const step = data.steps[number];
  const nodes = new Map(step.nodes.map((i) => [data.nodes[i].id, data.nodes[i]]));
  const regions = new Map(step.regions.map((i) => [data.regions[i].id, data.regions[i]]));
  const places = new Map([...nodes, ...regions].map(([id, item]) => [id, item.place]));
  return { number, nodes, regions, links: step.links.map((i) => data.links[i]), changes: step.changes, places };
}

/** What is seen of a thing: itself, or the outermost closed region around it. */
export function seenAs(scene: Scene, id: string, closed: Set<string>): string {
  let seen = id;
  for (let at = id; at; at = scene.places.get(at) ?? "") if (at !== id && closed.has(at)) seen = at;
  return seen;
}

/** What reaches `id` ("producers") or what it reaches ("consumers"), folded things included. */
export function traced(scene: Scene, id: string, producers: boolean, consumers: boolean): Set<string> {
  const found = new Set([id]);
  const walk = (from: "source" | "target", to: "source" | "target") => {
    const next = new Map<string, string[]>();
    for (const link of scene.links) if (link.style !== "carried") next.set(link[from], [...(next.get(link[from]) ?? []), link[to]]);
    const waiting = [id];
    const seen = new Set([id]);
    while (waiting.length)
      for (const other of next.get(waiting.pop()!) ?? []) {
        if (seen.has(other)) continue;
        seen.add(other);
        found.add(other);
        waiting.push(other);
      }
  };
  if (producers) walk("target", "source");
  if (consumers) walk("source", "target");
  return found;
}
