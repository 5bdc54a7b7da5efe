// Memory over time: bytes that are alive at each kernel, stacked, and below them the life of each array.
import { make, plural, register, type Context, type Selection } from "../core";
import { amount } from "../plans/amounts";
import style from "./memory.css";

interface Lifetime { name: string; type: string; bytes: number; kind: string; made: number; last: number; reads: number[]; lines: number[]; ops: number[] }
interface Moment { kernel: string; arguments: number; intermediates: number; results: number; launch: number; lines: number[] }
interface Payload { title: string; group: string; summary: string; arrays: Lifetime[]; moments: Moment[]; peak: number; most: number; unfused: number }

type Field = "arguments" | "intermediates" | "results" | "launch";
const KINDS: [field: Field, kind: string, words: string][] = [
  ["launch", "launch", "taken by launches"], ["results", "result", "results"], ["intermediates", "intermediate", "intermediates"], ["arguments", "argument", "arguments"]];
const bytes = (count: number): string => `${amount(count)}B`;
const total = (moment: Moment): number => moment.arguments + moment.intermediates + moment.results + moment.launch;

class Memory {
  private readonly status = make("div", { class: "tsr-foot", role: "status", "aria-live": "polite" });
  private readonly rows: { node: HTMLElement; array: Lifetime }[] = [];
  private readonly columns: HTMLElement[];
  private readonly stop: () => void;

  constructor(private readonly root: HTMLElement, private readonly data: Payload, private readonly context: Context) {
    this.columns = data.moments.map((moment, number) => this.column(moment, number));
    const shown = KINDS.filter(([field]) => field !== "launch" || data.moments.some((moment) => moment.launch));
    const legend = shown.map(([, kind, words]) => make("span", { class: "tsr-key-of" }, make("i", { class: `tsr-of-${kind}` }), words)).reverse();
    const chart = make("div", { class: "tsr-chart", role: "group", "aria-label": `${data.title}, kernel by kernel: ${data.summary}`, onkeydown: (event: KeyboardEvent) => this.walk(event) },
      make("div", { class: "tsr-byte-scale" }, make("span", {}, bytes(data.most)), make("span", {}, "0 B")),
      make("div", { class: "tsr-columns" }, ...this.columns));
    // The largest first among those that begin together: what is worth a look stands on top.
    const ordered = [...data.arrays].sort((a, b) => a.made - b.made || b.bytes - a.bytes);
    const lives = make("div", { class: "tsr-lives", role: "group", "aria-label": "arrays", onkeydown: (event: KeyboardEvent) => this.keys(event) }, ...ordered.map((each) => this.life(each)));
    root.style.setProperty("--kernels", String(Math.max(1, data.moments.length)));
    root.append(
      make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, data.title), make("span", { class: "tsr-pill" }, `peak ${bytes(data.most)}`), make("span", { class: "tsr-grow" }), ...legend),
      make("div", { class: "tsr-scrolled" }, chart, lives), this.status);
    this.tell();
    this.stop = context.bus.subscribe(root, (selection) => this.mark(selection));
    if (context.bus.selection) this.mark(context.bus.selection);
  }

  destroy(): void {
    this.stop();
  }

  private column(moment: Moment, number: number): HTMLElement {
    const peak = number === this.data.peak;
    const said = `kernel ${moment.kernel}: ${bytes(total(moment))}${peak ? ", the peak" : ""} (${KINDS.filter(([field]) => field !== "launch" || moment.launch).map(([field, , words]) => `${words} ${bytes(moment[field])}`).reverse().join(", ")})`;
    const node = make("div", { class: peak ? "tsr-column tsr-peak" : "tsr-column", role: "button", tabindex: number ? -1 : 0, title: said, "aria-label": said, onclick: () => this.chooseKernel(number) },
      make("span", { class: "tsr-stack" }, make("span", { class: "tsr-top" }, bytes(total(moment))), ...KINDS.map(([field, kind]) => make("i", { class: `tsr-of-${kind}`, style: `height:${(100 * moment[field]) / Math.max(1, this.data.most)}%` }))),
      make("span", { class: "tsr-kernel-name" }, moment.kernel));
    return node;
  }

  private life(array: Lifetime): HTMLElement {
    const from = Math.max(0, array.made), reads = array.reads.map((n) => make("b", { style: `grid-column:${n + 1}`, title: `read by kernel ${n}` }));
    const bar = make("i", { class: `tsr-of-${array.kind}`, style: `grid-column:${from + 1}/${array.last + 2}` });
    const made = array.made >= 0 ? make("em", { style: `grid-column:${array.made + 1}`, title: `written by kernel ${array.made}` }) : null;
    const said = `${array.name}: ${array.type}, ${bytes(array.bytes)}, ${array.kind}, alive ${array.made < 0 ? "from the start" : `from kernel ${array.made}`} to kernel ${array.last}`;
    const node = make("div", { class: "tsr-life", role: "button", tabindex: this.rows.length ? -1 : 0, title: said, "aria-label": said, "aria-pressed": "false", onclick: () => this.choose(node) },
      make("span", { class: "tsr-held" }, make("code", {}, array.name), make("span", { class: "tsr-soft" }, ` ${array.type}`), make("span", { class: "tsr-size" }, bytes(array.bytes))),
      make("span", { class: "tsr-lifeline" }, bar, made, ...reads));
    this.rows.push({ node, array });
    return node;
  }

  private choose(node: HTMLElement): void {
    const { array } = this.rows.find((each) => each.node === node)!;
    this.focus(this.rows.map((each) => each.node), node);
    this.select({ lines: array.lines, ops: array.ops, label: node.title }, node);
  }

  private chooseKernel(number: number): void {
    const moment = this.data.moments[number];
    this.focus(this.columns, this.columns[number]);
    this.select({ lines: moment.lines, label: this.columns[number].title }, this.columns[number]);
  }

  private select(selection: Selection, own: HTMLElement): void {
    this.context.bus.select(selection, this.root);
    this.mark(selection, own);
  }

  private focus(nodes: HTMLElement[], node: HTMLElement): void {
    for (const each of nodes) each.tabIndex = each === node ? 0 : -1;
    node.focus();
  }

  private keys(event: KeyboardEvent): void {
    this.move(event, this.rows.map((each) => each.node), "ArrowUp", "ArrowDown", (node) => this.choose(node));
  }

  private walk(event: KeyboardEvent): void {
    this.move(event, this.columns, "ArrowLeft", "ArrowRight", (node) => this.chooseKernel(this.columns.indexOf(node)));
  }

  private move(event: KeyboardEvent, nodes: HTMLElement[], back: string, on: string, press: (node: HTMLElement) => void): void {
    const at = nodes.indexOf(event.target as HTMLElement);
    if (event.key === "Escape") {
      this.context.bus.select(null, this.root);
      return this.mark(null);
    }
    if (at < 0) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return press(nodes[at]);
    }
    const to = ({ [back]: at - 1, [on]: at + 1, Home: 0, End: nodes.length - 1 } as Record<string, number>)[event.key];
    if (to === undefined || !nodes[to]) return;
    event.preventDefault();
    this.focus(nodes, nodes[to]);
  }

  /** Mark arrays that come from what is selected; `own`: what was chosen here. */
  private mark(selection: Selection | null, own: HTMLElement | null = null): void {
    const ops = new Set(selection?.ops ?? []), lines = new Set(selection?.lines ?? []);
    let count = 0;
    for (const { node, array } of this.rows) {
      const on = node === own || (ops.size && array.ops.length ? array.ops.some((op) => ops.has(op)) : array.lines.some((line) => lines.has(line)));
      node.classList.toggle("tsr-on", on);
      node.setAttribute("aria-pressed", String(on));
      count += Number(on);
    }
    for (const node of this.columns) node.classList.toggle("tsr-on", node === own);
    this.tell(selection && `${selection.label ?? "selected"} · ${count ? plural(count, "array") : "no counterpart"}`);
  }

  private tell(said?: string | null): void {
    const key = (name: string): HTMLElement => make("kbd", {}, name);
    this.status.replaceChildren(said ? make("b", {}, said) : make("span", {}, this.data.summary), make("span", { class: "tsr-grow" }),
      make("span", { class: "tsr-keys" }, key("←"), " ", key("→"), " kernels · ", key("↑"), " ", key("↓"), " arrays · ", key("Enter"), " · ", key("Esc"), " clear"));
  }
}

register("memory", (root: HTMLElement, data: Payload, context: Context) => new Memory(root, data, context), style);
