// The graph view: a kernel's dataflow or any other graph; the model is tessera/viz/graph/model.py.
import { button, library, make, plural, register, svg, table, type Context, type Selection } from "../core";
import { byGraphviz } from "../graph/engine";
import { chip, CHANGES, Drawing, sayNode, SIGNS, type Marks } from "../graph/draw";
import { place, type Placed } from "../graph/place";
import { sceneOf, seenAs, traced, type Item, type Payload, type Scene } from "../graph/types";
import style from "./graph.css";

/** The smallest zoom at which a graph is shown at first. */
const READABLE = 0.7;
type Trace = "" | "producers" | "consumers" | "both";

class GraphPage {
  private readonly closed: Set<string>;
  private scene: Scene;
  private placed!: Placed;
  private variant = "main";
  private chosen: string | null = null;
  private trace: Trace = "";
  private changes = true;
  private found: string[] = [];
  private readonly others = new Set<string>();
  private readonly drawing = new Drawing((id, toggle) => (toggle ? this.toggle(id) : this.choose(id === this.chosen ? null : id)));
  private readonly stage: HTMLElement;
  private readonly status = make("div", { class: "tsr-foot tsr-g-status", role: "status", "aria-live": "polite" });
  private readonly panel = make("aside", { class: "tsr-g-panel", "aria-label": "selected operation", hidden: true });
  private readonly search: HTMLInputElement;
  private readonly hits = make("span", { class: "tsr-soft", "aria-live": "polite" });
  private readonly fold: HTMLButtonElement;
  private readonly slider: HTMLInputElement;
  private readonly passName = make("span", { class: "tsr-g-pass" });
  private readonly rows = make("div", { class: "tsr-g-scroll", tabindex: 0, role: "region", "aria-label": "table of operations" });
  private readonly engine = make("span", { class: "tsr-soft" });
  private readonly details: HTMLDetailsElement;
  private readonly stop: () => void;
  private readonly resize: ResizeObserver;
  private fitted = false;
  /** Where the camera was brought by `fit`: a reader who has moved since is not taken away. */
  private fittedTo = "";

  constructor(private readonly root: HTMLElement, private readonly data: Payload, private readonly context: Context) {
    this.closed = new Set(data.closed);
    this.scene = sceneOf(data, data.first);
    this.stage = make("div", {
      class: "tsr-g-stage", tabindex: 0, role: "application",
      "aria-label": `${data.title}. Arrow keys go along edges, plus and minus open and close regions, p and c trace producers and consumers, f fits, brackets go through the passes; a table follows.`,
      onkeydown: (event: KeyboardEvent) => this.key(event),
    }, this.drawing.root);
    this.search = make("input", { type: "search", placeholder: "search", "aria-label": "search operations", oninput: () => this.find(false), onkeydown: (event: KeyboardEvent) => this.searchKey(event) });
    this.fold = button("", "show or fold index arithmetic and constants", () => this.setVariant(this.variant === "main" ? "all" : "main"), { class: "tsr-g-fold", "aria-label": null });
    this.slider = make("input", { type: "range", min: 0, max: data.steps.length - 1, value: data.first, "aria-label": "pass", oninput: () => this.show(Number(this.slider.value)) });
    this.details = make("details", { ontoggle: () => this.fillTable() }, make("summary", {}, "as a table"), this.rows);
    root.append(this.head(), ...(data.steps.length > 1 ? [this.passes()] : []), make("div", { class: "tsr-g-body" }, this.stage, this.panel), this.status, this.legend(), this.details);
    this.pan();
    this.stop = context.bus.subscribe(root, (selection) => this.hear(selection));
    this.resize = new ResizeObserver(() => (this.fitted ? this.drawing.update() : this.fit(READABLE)));
    this.resize.observe(this.stage);
    this.redraw();
    if (data.layout.engine === "layered" && context.channel) void this.better();
  }

  destroy(): void {
    this.stop();
    this.resize.disconnect();
  }

  // -- parts -------------------------------------------------------------------------------------------------

  private head(): HTMLElement {
    const all = () => [...this.scene.regions.keys()];
    return make("div", { class: "tsr-head" },
      make("span", { class: "tsr-name" }, this.data.title), make("span", { class: "tsr-grow" }),
      this.search, this.hits, this.fold,
      button("⊟ close", "close all regions", () => this.setClosed(all().filter((id) => this.scene.places.get(id)))),
      button("⊞ open", "open all regions", () => this.setClosed([])),
      make("span", { role: "group", "aria-label": "zoom", class: "tsr-g-zoom" },
        button("−", "zoom out", () => this.zoom(1 / 1.25)), button("+", "zoom in", () => this.zoom(1.25)),
        button("100 %", "zoom to 100 %", () => this.zoom(1 / this.drawing.camera.k)), button("fit", "fit the graph into the view (f)", () => this.fit())));
  }

  private passes(): HTMLElement {
    const go = (by: number) => this.show(this.scene.number + by);
    const toggle = button("± changes", "mark what the pass changed", () => {
      this.changes = !this.changes;
      toggle.setAttribute("aria-pressed", String(this.changes));
      this.mark();
    }, { "aria-pressed": "true" });
    return make("div", { class: "tsr-bar" }, button("◀", "the pass before ([)", () => go(-1)), this.slider, button("▶", "the next pass (])", () => go(1)), this.passName, make("span", { class: "tsr-grow" }), toggle);
  }

  private legend(): HTMLElement {
    const swatch = (name: string) => svg("svg", { width: 20, height: 16, class: `tsr-g-node tsr-s-${name} tsr-g-swatch`, "aria-hidden": "true" }, svg("rect", { class: "tsr-g-box", x: 1, y: 1, width: 18, height: 14, rx: 3 }), svg("text", { class: "tsr-g-sign", x: 10, y: 12, "text-anchor": "middle" }, SIGNS[name]));
    const line = (name: string) => svg("svg", { width: 26, height: 12, class: "tsr-g-swatch", "aria-hidden": "true" }, svg("path", { class: `tsr-g-wire tsr-e-${name}`, d: "M1 6H25", "stroke-width": 1.6 }));
    const badge = (kind: string) => {
      const one = [...this.data.nodes, ...this.data.regions].flatMap((item) => item.badges).filter((each) => each.kind === kind).at(-1)!;
      const width = one.text.length * 6.1 + 12 + (one.ring ? 18 : 0);
      return svg("svg", { width: width + 2, height: 18, class: "tsr-g-swatch", "aria-hidden": "true" }, chip(one, [1, 1, width]));
    };
    const entry = (picture: Element, said: string) => make("span", { class: "tsr-g-entry" }, picture, said);
    return make("details", { class: "tsr-g-legend" }, make("summary", {}, "legend, keys and layout"),
      make("div", {}, ...Object.entries(this.data.styles).map(([name, said]) => entry(swatch(name), said)), ...Object.entries(this.data.edges).map(([name, said]) => entry(line(name), said))),
      make("div", {}, ...Object.entries(this.data.legend).map(([kind, said]) => entry(badge(kind), said))),
      make("div", { class: "tsr-soft" }, "drag or shift+arrows: move · ctrl+wheel: zoom · ↑ ↓: along edges · ← →: beside · + −: open, close · p c t: trace · [ ]: passes · f: fit · /: search · esc: let go"),
      make("div", {}, this.engine));
  }

  // -- what is shown -----------------------------------------------------------------------------------------

  private redraw(keep?: string): void {
    const before = keep ? this.placed?.boxes.get(keep) : undefined;
    this.placed = place(this.data.layout, this.variant, this.scene, this.closed);
    const after = keep ? this.placed.boxes.get(keep) : undefined;
    if (before && after) {
      // What was pressed stays under the hand.
      this.drawing.camera.x += (before.x - after.x) * this.drawing.camera.k;
      this.drawing.camera.y += (before.y - after.y) * this.drawing.camera.k;
    }
    if (this.chosen && !this.placed.boxes.has(this.chosen)) this.chosen = null;
    this.drawing.show(this.scene, this.placed, this.marks());
    this.told();
    this.fillTable();
    this.root.dataset.drawn = `${this.scene.number} ${this.variant} ${[...this.closed].sort().join(",")}`;
  }

  show(number: number): void {
    if (number < 0 || number >= this.data.steps.length || number === this.scene.number) return;
    this.scene = sceneOf(this.data, number);
    this.slider.value = String(number);
    this.find(true);
    this.redraw();
    this.fillPanel();
  }

  private setVariant(variant: string): void {
    this.variant = variant;
    this.redraw(this.chosen ?? undefined);
    if (!this.chosen) this.fit();
  }

  private setClosed(ids: string[]): void {
    this.closed.clear();
    for (const id of ids) this.closed.add(id);
    this.redraw();
    this.fit();
  }

  private toggle(id: string, open = this.closed.has(id)): void {
    if (open) this.closed.delete(id);
    else this.closed.add(id);
    this.redraw(id);
    this.chosen = id;
    this.mark();
    this.fillPanel();
  }

  private marks(): Marks {
    const way = this.chosen && this.trace ? traced(this.scene, this.chosen, this.trace !== "consumers", this.trace !== "producers") : null;
    const seen = way && new Set([...way].map((id) => seenAs(this.scene, id, this.closed)));
    return { chosen: this.chosen, traced: seen, found: new Set(this.found.map((id) => seenAs(this.scene, id, this.closed))), others: new Set([...this.others].map((id) => seenAs(this.scene, id, this.closed))), changes: this.changes };
  }

  private mark(): void {
    this.drawing.mark(this.marks());
    if (this.chosen) this.stage.setAttribute("aria-activedescendant", this.drawing.idOf(this.chosen));
    else this.stage.removeAttribute("aria-activedescendant");
    this.told();
  }

  private item(id: string): Item | undefined {
    return this.scene.nodes.get(id) ?? this.scene.regions.get(id);
  }

  private told(): void {
    const folded = Object.entries(this.data.folded).map(([name, noun]) => [[...this.scene.nodes.values()].filter((node) => node.style === name).length, noun] as const).filter(([count]) => count);
    const total = folded.map(([count, noun]) => plural(count, noun)).join(", ");
    this.fold.hidden = !total;
    this.fold.textContent = this.variant === "main" ? `▸ ${total}` : `▾ ${total}`;
    this.fold.setAttribute("aria-pressed", String(this.variant === "all"));
    const step = this.data.steps[this.scene.number];
    const counts = Object.entries(CHANGES).map(([kind, sign]) => [sign, kind, Object.values(step.changes).filter(([each]) => each === kind).length] as const).filter(([, , count]) => count);
    this.passName.replaceChildren(make("b", {}, step.name), ` ${this.scene.number + 1} of ${this.data.steps.length} `, make("span", { class: "tsr-soft" }, step.told ? step.told : counts.length ? counts.map(([sign, kind, count]) => `${sign}${count} ${kind}`).join("  ") : this.scene.number ? "changed nothing" : "the first"));
    this.slider.setAttribute("aria-valuetext", step.name);
    this.engine.textContent = `layout: ${this.data.layout.engine === "layered" ? "layered (no graphviz here)" : this.data.layout.engine}; ${plural(this.placed.boxes.size, "box").replace(/boxs$/, "boxes")}`;
    const item = this.chosen ? this.item(this.chosen) : undefined;
    const change = this.chosen ? step.changes[this.chosen]?.[0] : "";
    if (!item) this.status.textContent = this.others.size ? this.heard : this.data.text;
    else {
      const more = this.trace ? `; ${plural(traced(this.scene, item.id, this.trace !== "consumers", this.trace !== "producers").size - 1, this.trace === "both" ? "operation" : this.trace.slice(0, -1))} traced` : "";
      this.status.textContent = `${sayNode(item, change)}${item.keys.lines.length ? `; line ${item.keys.lines.join(", ")}` : ""}${more}`;
    }
  }

  private heard = "";

  // -- selection ---------------------------------------------------------------------------------------------

  private choose(id: string | null, quiet = false): void {
    this.chosen = id;
    this.others.clear();
    const item = id ? this.item(id) : undefined;
    if (!quiet) {
      const { ops, records, lines } = item?.keys ?? { ops: [], records: [], lines: [] };
      this.context.bus.select(item ? { program: this.data.program || undefined, ops, records, lines, label: item.label } : null, this.root);
    }
    this.mark();
    this.fillPanel();
  }

  private hear(selection: Selection | null): void {
    this.others.clear();
    this.chosen = null;
    const same = !selection?.program || !this.data.program || selection.program === this.data.program;
    const ops = new Set(same ? selection?.ops : []), lines = new Set(selection?.lines), records = new Set(selection?.records);
    const by = (test: (item: Item) => boolean) => [...this.scene.nodes.values(), ...this.scene.regions.values()].filter(test).map((item) => item.id);
    const found = ops.size ? by((item) => item.keys.ops.some((op) => ops.has(op)) && !this.scene.regions.has(item.id)) : [];
    const more = found.length ? found : by((item) => item.keys.records.some((each) => records.has(each)));
    for (const id of more.length || ops.size ? more : by((item) => !this.scene.regions.has(item.id) && item.keys.lines.some((line) => lines.has(line)))) this.others.add(id);
    const seen = [...this.others].map((id) => seenAs(this.scene, id, this.closed)).filter((id) => this.placed.boxes.has(id));
    const label = selection?.label ?? "the selection";
    const hidden = this.others.size - seen.length;
    this.heard = `${label}: ${plural(this.others.size, "counterpart")}${hidden ? `, ${hidden} of them folded` : ""}`;
    this.mark();
    this.fillPanel();
    if (seen.length) this.reveal(seen[0]);
    if (selection && !this.others.size) this.status.textContent = `${label}: no counterpart in this graph`;
  }

  /** Open what is around a thing, and bring it into sight. */
  private reveal(id: string, open = false): void {
    if (open) {
      let changed = false;
      for (let at = this.scene.places.get(id) ?? ""; at; at = this.scene.places.get(at) ?? "") changed = this.closed.delete(at) || changed;
      if (this.variant === "main" && this.scene.nodes.get(id)?.style! in this.data.folded) (this.variant = "all"), (changed = true);
      if (changed) this.redraw();
    }
    const box = this.placed.boxes.get(id);
    if (!box) return;
    const camera = this.drawing.camera, { clientWidth, clientHeight } = this.stage;
    const x = box.x * camera.k + camera.x, y = box.y * camera.k + camera.y;
    const tall = box.open ? box.head : box.h;
    if (x < 20) camera.x += 20 - x;
    else if (x + box.w * camera.k > clientWidth - 20) camera.x -= Math.min(x - 20, x + box.w * camera.k - clientWidth + 20);
    if (y < 20) camera.y += 20 - y;
    else if (y + tall * camera.k > clientHeight - 20) camera.y -= y + tall * camera.k - clientHeight + 20;
    this.drawing.update();
  }

  private fillPanel(): void {
    const item = this.chosen ? this.item(this.chosen) : undefined;
    this.panel.hidden = !item;
    if (!item) return;
    const links = (mine: "source" | "target", other: "source" | "target") => {
      const ids = [...new Set(this.scene.links.filter((link) => link[mine] === item.id).map((link) => link[other]))];
      return make("div", { class: "tsr-g-ends" }, ...ids.slice(0, 30).map((id) => button(this.item(id)!.label, `go to ${this.item(id)!.label}`, () => this.go(id))), ids.length > 30 ? `and ${ids.length - 30} more` : null, ids.length ? null : "none");
    };
    const tracer = (trace: Trace, said: string, keyName: string) => button(said, `trace ${trace} (${keyName})`, () => this.setTrace(trace), { "aria-pressed": String(this.trace === trace) });
    this.panel.replaceChildren(
      make("div", { class: "tsr-g-title" }, make("b", {}, item.label), button("×", "let go (esc)", () => this.choose(null))),
      make("div", { class: "tsr-soft" }, [item.note, item.style && this.data.styles[item.style]].filter(Boolean).join(" · ")),
      make("div", { role: "group", "aria-label": "trace" }, tracer("producers", "⇡ producers", "p"), tracer("consumers", "⇣ consumers", "c"), tracer("both", "⇕ both", "t")),
      ...(item.badges.length ? [make("dl", {}, ...item.badges.flatMap((badge) => [make("dt", {}, badge.text), make("dd", {}, badge.detail || this.data.legend[badge.kind] || "")]))] : []),
      make("h4", {}, "from"), links("target", "source"), make("h4", {}, "to"), links("source", "target"),
      make("h4", {}, "attributes"), make("dl", {}, ...item.facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])),
    );
  }

  private go(id: string): void {
    this.reveal(id, true);
    this.choose(id);
    this.reveal(id);
  }

  private setTrace(trace: Trace): void {
    this.trace = this.trace === trace ? "" : trace;
    this.mark();
    this.fillPanel();
  }

  // -- search and table --------------------------------------------------------------------------------------

  private find(quiet: boolean): void {
    const wanted = this.search.value.trim().toLowerCase();
    const text = (item: Item) => [item.label, item.note, ...item.badges.map((badge) => badge.text), ...item.facts.flat()].join(" ").toLowerCase();
    this.found = wanted ? [...this.scene.nodes.values(), ...this.scene.regions.values()].filter((item) => text(item).includes(wanted)).map((item) => item.id) : [];
    this.hits.textContent = wanted ? plural(this.found.length, "hit") : "";
    if (!quiet) this.mark();
  }

  private searchKey(event: KeyboardEvent): void {
    if (event.key === "Escape" && this.search.value) this.search.value = "";
    else if (event.key === "Enter" && this.found.length) {
      const at = this.found.indexOf(this.chosen ?? "");
      this.go(this.found[(at + (event.shiftKey ? this.found.length - 1 : 1)) % this.found.length]);
    } else return;
    event.preventDefault();
    this.find(false);
  }

  private fillTable(): void {
    if (!this.details.open) return this.rows.replaceChildren();
    const from = new Map<string, string[]>();
    for (const link of this.scene.links) from.set(link.target, [...(from.get(link.target) ?? []), this.item(link.source)!.label]);
    const rows = [...this.scene.nodes.values()].map((node) => [
      button(node.label, `go to ${node.label}`, () => this.go(node.id)), node.note ?? "", this.data.styles[node.style!] ?? "", node.place ? this.scene.regions.get(node.place)?.label ?? "" : "",
      [...new Set(from.get(node.id) ?? [])].join(", "), node.badges.map((badge) => badge.text).join("; "), this.scene.changes[node.id]?.[0] ?? "",
    ]);
    this.rows.replaceChildren(table(["operation", "type", "what it is", "in", "inputs", "decisions", "this pass"], rows));
  }

  // -- camera and keys ---------------------------------------------------------------------------------------

  private zoom(by: number, atX = this.stage.clientWidth / 2, atY = this.stage.clientHeight / 2): void {
    const camera = this.drawing.camera, k = Math.min(3, Math.max(0.04, camera.k * by));
    camera.x = atX - ((atX - camera.x) * k) / camera.k;
    camera.y = atY - ((atY - camera.y) * k) / camera.k;
    camera.k = k;
    this.drawing.update();
  }

  /** Bring all of the graph into sight; at first no smaller than can be read. */
  fit(least = 0): void {
    const { clientWidth, clientHeight } = this.stage;
    if (!clientWidth) return;
    this.fitted = true;
    const carried = 20;
    const whole = Math.min(1, (clientWidth - 24) / (this.placed.width + carried), (clientHeight - 24) / this.placed.height);
    const k = Math.max(least, whole);
    this.drawing.camera = { k, x: (clientWidth - this.placed.width * k) / 2, y: Math.max(12, (clientHeight - this.placed.height * k) / 2) };
    this.fittedTo = JSON.stringify(this.drawing.camera);
    this.drawing.update();
  }

  private pan(): void {
    const held = new Map<number, [number, number]>();
    this.stage.addEventListener("pointerdown", (event) => event.button === 0 && held.set(event.pointerId, [event.clientX, event.clientY]));
    this.stage.addEventListener("pointermove", (event) => {
      const last = held.get(event.pointerId);
      if (!last) return;
      if (!this.stage.hasPointerCapture(event.pointerId)) {
        if (Math.hypot(event.clientX - last[0], event.clientY - last[1]) < 4) return;
        this.stage.setPointerCapture(event.pointerId);
      }
      held.set(event.pointerId, [event.clientX, event.clientY]);
      this.drawing.camera.x += event.clientX - last[0];
      this.drawing.camera.y += event.clientY - last[1];
      this.drawing.update();
    });
    for (const end of ["pointerup", "pointercancel"] as const) this.stage.addEventListener(end, (event) => held.delete(event.pointerId));
    this.stage.addEventListener("wheel", (event) => {
      // Alone, the wheel scrolls the notebook.
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const frame = this.stage.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY / 300), event.clientX - frame.left, event.clientY - frame.top);
    }, { passive: false });
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const camera = this.drawing.camera;
    const moves: Record<string, [number, number]> = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    const region = this.chosen && (this.scene.regions.has(this.chosen) ? this.chosen : this.scene.places.get(this.chosen));
    const keys: Record<string, () => void> = {
      f: () => this.fit(), "1": () => this.zoom(1 / camera.k), i: () => this.zoom(1.25), o: () => this.zoom(1 / 1.25),
      p: () => this.setTrace("producers"), c: () => this.setTrace("consumers"), t: () => this.setTrace("both"),
      "[": () => this.show(this.scene.number - 1), "]": () => this.show(this.scene.number + 1), "/": () => this.search.focus(),
      "+": () => region && this.toggle(region, true), "=": () => region && this.toggle(region, true), "-": () => region && this.toggle(region, false),
      Home: () => this.step(null, ""), Escape: () => this.choose(null),
    };
    if (event.key in moves && event.shiftKey) {
      camera.x += moves[event.key][0];
      camera.y += moves[event.key][1];
      this.drawing.update();
    } else if (event.key in moves) this.step(this.chosen, event.key);
    else if (event.key === "Escape" && !this.chosen) return;
    else if (keys[event.key]) keys[event.key]();
    else return;
    event.preventDefault();
  }

  /** Go to the nearest box in a direction: along edges up and down, to the box beside it left and right. */
  private step(from: string | null, way: string): void {
    const here = from ? this.placed.boxes.get(from) : undefined;
    const boxes = [...this.placed.boxes.values()];
    if (!here) {
      const first = boxes.filter((box) => !box.open).sort((a, b) => a.y - b.y || a.x - b.x)[0];
      if (first) this.choose(first.id), this.reveal(first.id);
      return;
    }
    const middle = (box: { x: number; w: number }) => box.x + box.w / 2;
    const joined = new Set(this.placed.wires.filter((wire) => (way === "ArrowDown" ? wire.source : wire.target) === from && wire.link.style !== "carried").map((wire) => (way === "ArrowDown" ? wire.target : wire.source)));
    const candidates = boxes.filter((box) => {
      if (box.id === from) return false;
      if (way === "ArrowDown") return joined.has(box.id) || (!joined.size && box.y > here.y + (here.open ? 0 : here.h - 1));
      if (way === "ArrowUp") return joined.has(box.id) || (!joined.size && box.y + (box.open ? 0 : box.h) < here.y + 1);
      const beside = box.y < here.y + here.h && here.y < box.y + box.h && !box.open;
      return beside && (way === "ArrowRight" ? middle(box) > middle(here) : middle(box) < middle(here));
    });
    const far = (box: { x: number; y: number; w: number }) => Math.hypot(middle(box) - middle(here), (box.y - here.y) * (way === "ArrowLeft" || way === "ArrowRight" ? 3 : 1));
    const next = candidates.sort((a, b) => far(a) - far(b))[0];
    if (next) this.choose(next.id), this.reveal(next.id);
  }

  /** Lay out by graphviz, what is shown first; until that is done, and where it cannot be, Python's layout stays. */
  private async better(): Promise<void> {
    const graphviz = await library("graphviz", this.context.channel);
    if (!graphviz) return;
    for (const variant of Object.keys(this.data.layout.variants)) {
      const layout = await byGraphviz(graphviz, this.data.layout, variant);
      if (!layout) return;
      this.data.layout = layout;
      if (variant !== this.variant) continue;
      const moved = this.chosen !== null || this.fittedTo !== JSON.stringify(this.drawing.camera);
      this.redraw(this.chosen ?? undefined);
      if (!moved) this.fit(READABLE);
    }
  }
}

register("graph", (root: HTMLElement, data: Payload, context: Context) => {
  const page = new GraphPage(root, data, context);
  return { destroy: () => page.destroy() };
}, style);
