// Fusion: the kernels of a function of operators, why each pair of neighbours is two, and the algebra of derived ones.
import { make, plural, register, table, type Child, type Context, type Selection } from "../core";
import { amount } from "../plans/amounts";
import style from "./fusion.css";

interface Cost { kernels: number; bytes: number; operations: number }
interface Place { lines: number[]; ops: number[] }
interface Row extends Place { text: string; note: string; operations: number }
interface Derived extends Place { section: string; symbol: string; text: string }
interface Kernel { number: number; name: string; form: string; words: string; cost: Cost; reads: string[]; writes: string[]; rows: Row[]; algebra: Derived[]; lines: number[] }
interface Boundary extends Place { producer: number; consumer: number; arrays: string[]; bytes: number; rule: string; words: string; detail: string; remedy: string; saved: number; about: string[] }
interface Trial { parts: string[]; form: string; rule: string; words: string; before: Cost; after: Cost; ops: number[] }
interface Rule { name: string; permission: string; words: string; lines: number[] }
interface Form { verdict: string; rules: Rule[]; cost: Cost; nanoseconds: number; more: number; lines: number[] }
interface Permission { name: string; cost: Cost; nanoseconds: number }
interface Forms { permitted: string[]; written: number; forms: Form[]; permissions: Permission[]; limit: string }
interface Payload { title: string; group: string; saved: string; separate: Cost; fused: Cost; kernels: Kernel[]; boundaries: Boundary[]; trials: Trial[]; forms: Forms }

const SECTIONS: Record<string, string> = {
  carried: "the loop carries", "begins with": "it begins with", merge: "two parts of the axis, ′ and ″, merge", result: "in the end",
};
const flop = (count: number): string => `${amount(count)}FLOP`;
const bytes = (count: number): string => `${amount(count)}B`;
const micro = (nanoseconds: number): string => `${(nanoseconds / 1000).toFixed(2)} µs`;
const where = (lines: number[]): string => (lines.length ? `line ${lines.join(", ")}` : "");

class Fusion {
  private readonly status = make("div", { class: "tsr-foot", role: "status", "aria-live": "polite" });
  private readonly rows: { node: HTMLElement; place: Place; label: string }[] = [];
  private readonly stop: () => void;

  constructor(private readonly root: HTMLElement, private readonly data: Payload, private readonly context: Context) {
    const list = make("div", { class: "tsr-kernels", onkeydown: (event: KeyboardEvent) => this.keys(event) }, ...data.kernels.flatMap((each) => this.kernel(each)));
    root.append(
      make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, data.title), make("span", { class: "tsr-pill" }, plural(data.kernels.length, "kernel"))),
      this.totals(), list, make("div", { onkeydown: (event: KeyboardEvent) => this.keys(event) }, this.forms()), this.trials(), this.status);
    this.tell();
    this.stop = context.bus.subscribe(root, (selection) => this.mark(selection));
    if (context.bus.selection) this.mark(context.bus.selection);
  }

  destroy(): void {
    this.stop();
  }

  /** Both totals, bars to one scale. */
  private totals(): HTMLElement {
    const { separate, fused } = this.data;
    const most = Math.max(separate.bytes, fused.bytes, 1);
    const line = (name: string, cost: Cost, kind: string): HTMLElement =>
      make("div", { class: "tsr-total" }, make("span", { class: "tsr-soft" }, name),
        make("span", { class: "tsr-track", "aria-hidden": "true" }, make("i", { class: kind, style: `width:${(100 * cost.bytes) / most}%` })),
        make("span", {}, make("b", {}, bytes(cost.bytes)), ` moved · ${plural(cost.kernels, "kernel")} · ${flop(cost.operations)}`));
    const times = fused.bytes && separate.bytes > fused.bytes ? `${(separate.bytes / fused.bytes).toPrecision(3).replace(/\.?0+$/, "")} × less through memory` : "";
    return make("div", { class: "tsr-totals", role: "group", "aria-label": this.data.saved },
      line("one kernel an operator", separate, "tsr-before"), line("as scheduled", fused, "tsr-after"), times ? make("div", { class: "tsr-gain" }, times) : null);
  }

  private kernel(each: Kernel): Node[] {
    const incoming = this.data.boundaries.filter((one) => one.consumer === each.number);
    const share = each.cost.bytes / Math.max(this.data.fused.bytes, 1);
    const intensity = each.cost.bytes ? each.cost.operations / each.cost.bytes : 0;
    const section = make("section", { class: `tsr-kernel tsr-form-${each.form}`, "aria-label": `kernel ${each.number} ${each.name}` },
      make("h4", {}, make("span", { class: "tsr-number" }, String(each.number)), make("span", {}, each.name), make("span", { class: "tsr-pill", title: each.words }, each.form),
        make("span", { class: "tsr-grow" }), make("span", { class: "tsr-soft" }, `${flop(each.cost.operations)} · ${bytes(each.cost.bytes)} · ${intensity.toPrecision(3)} FLOP/B`)),
      make("div", { class: "tsr-track", title: `${Math.round(100 * share)} % of the bytes`, "aria-hidden": "true" }, make("i", { class: "tsr-after", style: `width:${100 * share}%` })),
      make("div", { class: "tsr-soft tsr-words" }, `${each.words}; reads ${each.reads.join(", ") || "nothing"}; writes ${each.writes.join(", ")}`),
      make("div", { class: "tsr-two" }, this.equations(each), each.algebra.length ? this.algebra(each) : null));
    return [...incoming.map((one) => this.boundary(one)), section];
  }

  private equations(each: Kernel): HTMLElement {
    return make("div", { class: "tsr-equations" }, make("h5", {}, "computes"),
      ...each.rows.map((row) => this.row(row, `${row.text}`, make("code", {}, row.text), make("span", { class: "tsr-soft" }, row.note), make("span", { class: "tsr-at" }, where(row.lines)))));
  }

  /** What a derived kernel carries, begins with, how states merge, and the result. */
  private algebra(each: Kernel): HTMLElement {
    const nodes: Node[] = [make("h5", {}, "derived algebra")];
    let section = "";
    for (const row of each.algebra) {
      if (row.section !== section) nodes.push(make("div", { class: "tsr-section" }, SECTIONS[(section = row.section)] ?? section));
      nodes.push(this.row(row, `${row.symbol} = ${row.text}`, make("code", {}, make("b", {}, row.symbol), ` = ${row.text.replaceAll("''", "″").replaceAll("'", "′")}`), make("span", { class: "tsr-at" }, where(row.lines))));
    }
    return make("div", { class: "tsr-algebra" }, ...nodes);
  }

  private boundary(one: Boundary): HTMLElement {
    const arrays = make("code", {}, one.arrays.join(", "));
    const facts: Child[] = [one.detail ? make("span", {}, one.detail) : null,
      one.saved ? make("span", {}, `one kernel would move ${bytes(one.saved)} less`) : null];
    const told = make("div", {}, make("b", {}, `${one.producer} → ${one.consumer}`), " two kernels: ", one.words, make("span", { class: "tsr-soft" }, one.about.length ? ` (${one.about.join(", ")})` : ""));
    const node = this.row(one, `${one.producer} → ${one.consumer}: ${one.words}`, told,
      make("div", { class: "tsr-facts tsr-soft" }, make("span", {}, arrays, ` ${bytes(one.bytes)} through memory`), ...facts, make("span", { class: "tsr-at" }, where(one.lines))),
      one.remedy ? make("div", { class: "tsr-remedy" }, make("b", {}, "remedy "), one.remedy) : null);
    node.classList.add("tsr-boundary");
    node.dataset.rule = one.rule;
    return node;
  }

  /** Why not another form: equal graphs, the one that is scheduled first, then those that cost more. */
  private forms(): HTMLElement {
    const { forms, permissions, permitted, written, limit } = this.data.forms;
    const rejected = forms.filter((each) => each.verdict === "rejected").length;
    const rows = forms.map((each) => {
      const chosen = each.verdict === "chosen";
      const rules = each.rules.length ? each.rules.map((rule) => make("div", {}, make("code", {}, rule.name), " ", make("span", { class: "tsr-pill" }, rule.permission),
        " ", rule.words, " ", make("span", { class: "tsr-soft" }, where(rule.lines)))) : [make("div", {}, "as it is written")];
      const node = this.row({ lines: each.lines, ops: [] }, `${each.verdict} form`,
        make("div", {}, make("b", { class: chosen ? "tsr-p" : "tsr-m" }, chosen ? "✓ chosen" : "✗ rejected"), ` ${chosen ? micro(each.nanoseconds) : `+${micro(each.more)}`} `,
          make("span", { class: "tsr-soft" }, `${plural(each.cost.kernels, "kernel")} · ${flop(each.cost.operations)} · ${bytes(each.cost.bytes)}`)), ...rules);
      node.dataset.verdict = each.verdict;
      return node;
    });
    const gains = permissions.map((each) => make("div", { class: "tsr-remedy" }, make("b", {}, `algebra="${each.name}"`), ` would give ${micro(each.nanoseconds)}, ${plural(each.cost.kernels, "kernel")}, ${bytes(each.cost.bytes)}`));
    return make("details", { class: "tsr-merges tsr-forms" },
      make("summary", {}, `why not another form: 1 chosen, ${rejected} rejected; permitted: ${permitted.join(", ")}`),
      make("div", { class: "tsr-soft" }, `prices are of the reference machine; as it is written: ${micro(written)}${limit ? `; the search ${limit}` : ""}`), ...rows, ...gains);
  }

  private trials(): HTMLElement {
    const { trials } = this.data, taken = trials.filter((each) => each.form).length;
    const rows = trials.map((each): Child[] => [each.parts.join("  +  "), each.form ? make("span", { class: "tsr-p" }, `✓ ${each.form}`) : make("span", { class: "tsr-m" }, `✗ ${each.rule}`), each.words,
      `${bytes(each.before.bytes)} → ${bytes(each.after.bytes)}`, flop(each.after.operations)]);
    return make("details", { class: "tsr-merges" }, make("summary", {}, `what was tried: ${plural(trials.length, "merge")}, ${taken} legal, ${trials.length - taken} refused`),
      make("div", { class: "tsr-scroll", tabindex: 0, role: "region", "aria-label": "what was tried" }, table(["as one kernel", "verdict", "because", "bytes", "computes"], rows, [3, 4])));
  }

  private row(place: Place, label: string, ...children: Child[]): HTMLElement {
    const first = !this.rows.length;
    const node = make("div", { class: "tsr-item", role: "button", tabindex: first ? 0 : -1, "aria-pressed": "false", onclick: () => this.choose(node) }, ...children);
    this.rows.push({ node, place, label });
    return node;
  }

  private choose(node: HTMLElement): void {
    const found = this.rows.find((each) => each.node === node)!;
    this.focus(node);
    const selection = { lines: found.place.lines, ops: found.place.ops, label: found.label };
    this.context.bus.select(selection, this.root);
    this.mark(selection);
  }

  private focus(node: HTMLElement): void {
    for (const each of this.rows) each.node.tabIndex = each.node === node ? 0 : -1;
    node.focus({ preventScroll: false });
  }

  private keys(event: KeyboardEvent): void {
    const at = this.rows.findIndex((each) => each.node === event.target);
    if (event.key === "Escape") {
      this.context.bus.select(null, this.root);
      return this.mark(null);
    }
    if (at < 0) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return this.choose(this.rows[at].node);
    }
    const to = ({ ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: this.rows.length - 1 } as Record<string, number>)[event.key];
    if (to === undefined || !this.rows[to]) return;
    event.preventDefault();
    this.focus(this.rows[to].node);
  }

  /** Mark what has counterparts: common operations, else common lines. */
  private mark(selection: Selection | null): void {
    const ops = new Set(selection?.ops ?? []), lines = new Set(selection?.lines ?? []);
    let count = 0;
    for (const { node, place } of this.rows) {
      const on = ops.size && place.ops.length ? place.ops.some((op) => ops.has(op)) : place.lines.some((line) => lines.has(line));
      node.classList.toggle("tsr-on", on);
      node.setAttribute("aria-pressed", String(on));
      count += Number(on);
    }
    this.tell(selection && `${selection.label ?? "selected"}: ${count ? plural(count, "counterpart") : "no counterpart"}`);
  }

  private tell(said?: string | null): void {
    const key = (name: string): HTMLElement => make("kbd", {}, name);
    this.status.replaceChildren(...(said ? [make("b", {}, said)] : [make("span", { class: "tsr-keys" }, "click a row to see its line · ", key("↑"), " ", key("↓"), " ", key("Enter"), " · ", key("Esc"), " clear")]));
  }
}

register("fusion", (root: HTMLElement, data: Payload, context: Context) => new Fusion(root, data, context), style);
