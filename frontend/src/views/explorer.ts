// The IR explorer: the source and any number of levels and passes side by side, linked line by line.
import { button, CodePane, copy, download, make, plural, PALETTE, register, roam, ROW, separator, type Context, type Gutter } from "../core";
import { Choice } from "../ir/choice";
import { columnOf, held, marksOf, Pane, type Column as FigureColumn, type Payload } from "../ir/data";
import { branchGutter, byShare, columnGutter, originGutter } from "../ir/gutters";
import { passBar, writeBadge } from "../ir/passes";
import { Search } from "../ir/search";
import { forOthers, fragment, inSource, named, ofLine, ofOthers, type Selected } from "../ir/selection";
import { explanation, measurement, status } from "../ir/words";
import style from "../ir/explorer.css";

const TALLEST = 34;
const SUFFIX: Record<string, string> = { tile: "mlir", target: "mlir", llvm: "ll", asm: "s", ptx: "ptx", sass: "sass" };

/** One shown level. */
interface Column {
  pane: Pane;
  code: CodePane;
  section: HTMLElement;
  badge: HTMLElement;
}

class Explorer {
  private readonly panes: Pane[] = [];
  private readonly choice: Choice;
  private readonly hues: Map<number, string>;
  private readonly source: CodePane;
  private readonly measured: FigureColumn | null;
  private readonly body = make("div", { class: "tsr-body" });
  private readonly foot = make("div", { class: "tsr-foot", role: "status", "aria-live": "polite" });
  private readonly info = make("div", { class: "tsr-info", "aria-live": "polite", role: "region", "aria-label": "about this line" });
  private readonly tip = make("div", { class: "tsr-tip tsr-doc", role: "tooltip", hidden: true });
  private readonly picks = make("span", { class: "tsr-picks", role: "group", "aria-label": "panes shown" });
  private readonly search: Search;
  private readonly toggles: Record<string, HTMLButtonElement> = {};
  private readonly widths = new Map<string, number>();
  private tabs = new Map<string, HTMLElement>();
  private badges = new Map<Pane, HTMLElement>();
  private columns: Column[] = [];
  private withSource = true;
  private changes = false;
  private wrap = false;
  private filter = true;
  private figures = true;
  private selected: Selected | null = null;
  private last: Pane | null = null;
  private readonly nodes: HTMLElement[];
  private readonly stop: () => void;
  private readonly hashed = () => this.follow();

  constructor(
    private readonly root: HTMLElement, private readonly data: Payload, private readonly context: Context,
    private readonly swap: (data: Payload) => void,
  ) {
    data.panes.forEach((sent, index) => {
      const body = sent.same === undefined ? sent : this.panes[sent.same].body;
      this.panes.push(new Pane(sent, body, index));
    });
    this.choice = new Choice(this.panes, data.open);
    const known = [...new Set(data.keys.flatMap(([sources]) => sources))].sort((a, b) => a - b);
    this.hues = new Map(known.map((line, i) => [line, PALETTE[i % PALETTE.length]]));
    this.measured = data.measured ? columnOf(data.measured) : null;
    const measured = this.measured ? [columnGutter(this.measured)] : [];
    const blank: Gutter = { name: "from", width: "0", html: () => "" };
    this.source = new CodePane("your source", this.events(), {
      language: "source", lines: data.source, first: data.first, gutters: measured.length ? measured : [blank],
      hue: (line) => this.hues.get(line + data.first) ?? "",
    }, "tsr-src");
    const lines = this.panes.reduce((sum, pane) => sum + pane.keys.length, 0);
    this.search = new Search(lines, () => this.find(), (step) => this.searched()?.walk(step, true));
    this.nodes = [this.head(), this.body, this.info, this.foot, this.tip];
    this.root.append(...this.nodes);
    this.root.addEventListener("keydown", (event) => this.escape(event));
    this.stop = context.bus.subscribe(root, (selection) => this.hear(selection));
    addEventListener("hashchange", this.hashed);
    this.layout();
    if (context.bus.selection) this.hear(context.bus.selection);
    this.follow();
  }

  destroy(): void {
    this.stop();
    removeEventListener("hashchange", this.hashed);
    this.source.destroy();
    for (const column of this.columns) column.code.destroy();
    for (const node of this.nodes) node.remove();
  }

  private head(): HTMLElement {
    const toggle = (name: string, label: string, title: string, press: () => void): HTMLButtonElement =>
      (this.toggles[name] = make("button", { type: "button", class: "tsr-toggle", "aria-pressed": "false", title, "data-toggle": name, onclick: press }, label));
    const copier = button("copy", "copy the text of the pane in use", () => void copy(this.used().lines.join("\n"), this.root).then(() => {
      copier.textContent = "copied";
      setTimeout(() => (copier.textContent = "copy"), 1200);
    }));
    const tools = [
      toggle("all", "", "every level side by side", () => this.set(() => (this.choice.all = !this.choice.all))),
      toggle("wrap", "wrap", "break long lines", () => this.set(() => (this.wrap = !this.wrap))),
      toggle("filter", "filter", "leave out directives and comments", () => this.set(() => (this.filter = !this.filter))),
    ];
    if (this.panes.some((pane) => pane.columns.length)) tools.push(toggle("figures", "▦ figures", "columns of figures beside the text", () => this.set(() => (this.figures = !this.figures))));
    return make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, this.data.name), make("span", { class: "tsr-pill" }, this.data.target), this.kernels(),
      make("span", { class: "tsr-grow" }), this.search.node, this.picks, ...tools, copier,
      button("save", "download the text of the pane in use", () => this.save()), button("link", "copy a link to this line", () => this.link()));
  }

  /** Which kernel of a function of operators is shown; another one is asked for. */
  private kernels(): HTMLElement | null {
    const { kernels, kernel } = this.data, { channel } = this.context;
    if (!kernels?.length) return null;
    const title = channel ? "show the levels of another kernel" : "a live view shows the others: viz.explore(f, kernel=1), or .widget()";
    const list = make("select", { "aria-label": "kernel", title, disabled: !channel || kernels.length < 2, onchange: () => {
      list.disabled = true;
      void channel!.ask({ type: "kernel", kernel: list.selectedIndex }).then((said) => this.swap((said as { data: Payload }).data));
    } }, ...kernels.map((name, number) => make("option", { selected: number === kernel }, name)));
    return list;
  }

  private set(change: () => void): void {
    change();
    this.layout();
  }

  /** The pane that a line was chosen in last, of those shown; the first one before that. */
  private used(): Pane {
    return (this.columns.find((column) => column.pane === this.last) ?? this.columns[0]).pane;
  }

  private save(): void {
    const pane = this.used();
    download(`${this.data.name}.${pane.sent.stage}.${SUFFIX[pane.level] ?? "txt"}`, pane.lines.join("\n") + "\n");
  }

  private events() {
    return {
      choose: (line: number, code: CodePane) => this.choose(code, line),
      move: (line: number, code: CodePane) => this.explain(code, line),
      hover: (line: number | null, at: HTMLElement | null, code: CodePane) => this.hover(line, at, code),
    };
  }

  /** Make the panes anew: which levels, after which passes. */
  private layout(): void {
    for (const column of this.columns) column.code.destroy();
    this.tabs = new Map();
    this.badges = new Map();
    const { choice } = this, { all } = choice, panes = choice.inSight;
    this.columns = panes.map((pane) => this.column(pane));
    this.picks.replaceChildren(...(all ? choice.levels.map((level) => this.pick(level, this.data.captions[level], choice.shows(level), () => choice.toggle(level))) : []),
      this.pick("source", "your source", this.withSource, () => (this.withSource = !this.withSource)));
    const left = make("section", { class: "tsr-pane tsr-left", "aria-label": "your source" },
      make("div", { class: "tsr-bar" }, make("span", { class: "tsr-title", title: this.data.label }, this.data.label.split(/[\\/]/).at(-1)!)), this.source.node);
    // As tall as the levels shown need, whichever of their passes is chosen.
    const levels = new Set(panes.map((pane) => pane.level));
    const longest = Math.max(this.data.source.length, ...this.panes.filter((pane) => levels.has(pane.level)).map((pane) => pane.keys.length + pane.sent.ghosts.length));
    this.body.style.setProperty("--tall", `${Math.min(TALLEST, Math.max(8, longest + 2)) * ROW + 100}px`);
    this.body.classList.toggle("tsr-all", all);
    const scrolled = this.source.box.scrollTop;
    const sections = [...(this.withSource ? [left] : []), ...this.columns.map((column) => column.section)];
    this.body.replaceChildren(...sections.flatMap((section, i) => (i < sections.length - 1 ? [section, this.split(section)] : [section])));
    this.source.box.scrollTop = scrolled;
    for (const [name, on] of Object.entries({ all, wrap: this.wrap, filter: this.filter, figures: this.figures })) this.toggles[name]?.setAttribute("aria-pressed", String(on));
    this.toggles.all.textContent = all ? "▤ one level" : "▥ side by side";
    for (const code of this.codes()) {
      code.wrap = this.wrap;
      code.filter = this.filter;
    }
    this.refresh(true);
  }

  private codes(): CodePane[] {
    return [this.source, ...this.columns.map((column) => column.code)];
  }

  private split(section: HTMLElement): HTMLElement {
    const name = section.getAttribute("aria-label")!;
    const key = `${this.choice.all} ${section.dataset.name ?? name}`;
    const width = this.widths.get(key);
    if (width) section.style.flex = `0 0 ${width}px`;
    return separator(section, `width of ${name}`, (now) => this.widths.set(key, now));
  }

  private pick(name: string, title: string, chosen: boolean, press: () => void): HTMLElement {
    const choose = (): void => {
      press();
      this.layout();
      this.picks.querySelector<HTMLElement>(`[data-pick="${name}"]`)?.focus({ preventScroll: true });
    };
    return make("button", { type: "button", class: "tsr-toggle", "data-pick": name, "aria-pressed": String(chosen), title, onclick: choose }, name);
  }

  /** A pane: a bar of tabs (or the level's name), the passes of the level, and the text. */
  private column(pane: Pane): Column {
    const { choice } = this, { level } = pane;
    const caption = this.data.captions[level];
    const bar = make("div", { class: "tsr-bar" });
    const badge = make("span");
    if (choice.all) bar.append(make("span", { class: "tsr-title", title: caption }, choice.isExtra(pane) ? pane.name : level, badge), make("span", { class: "tsr-grow" }));
    else {
      const tabs = make("div", { class: "tsr-tabs", role: "tablist", "aria-label": "levels of the compiler", onkeydown: (event: KeyboardEvent) => roam(event, tabs, "[role=tab]") },
        ...choice.levels.map((each) => this.tab(each)));
      bar.append(tabs, make("span", { class: "tsr-grow" }));
    }
    const text = this.text(pane);
    const code = new CodePane(caption, this.events(), text);
    const hidden = this.filter && pane.quiet.size ? pane.body.filter : "";
    bar.append(make("span", { class: "tsr-soft tsr-hides", title: hidden }, hidden));
    const hottest = byShare(pane);
    if (hottest.length) {
      let next = 0;
      bar.append(button("hottest", "go to the instruction with the most samples; again: to the next one", () => {
        code.goTo(hottest[next], true);
        this.choose(code, hottest[next]);
        next = (next + 1) % hottest.length;
      }));
    }
    if (text.folds.length) bar.append(button("⊟", "fold every region", () => code.foldAll(true)), button("⊞", "unfold every region", () => code.foldAll(false)));
    const section = make("section", { class: this.figures && pane.columns.length ? "tsr-pane tsr-broad" : "tsr-pane", "aria-label": caption, "data-name": pane.name }, bar);
    if (!choice.all) section.setAttribute("role", "tabpanel");
    const stages = choice.stages(level);
    if (stages.length > 1) {
      const mark = make("button", { type: "button", class: "tsr-toggle", "aria-pressed": String(this.changes),
        title: "mark what this pass changed: + new, ~ changed, ↕ moved, − gone", onclick: () => this.set(() => (this.changes = !this.changes)) }, this.changes ? "± changes on" : "± changes");
      const another = choice.isExtra(pane)
        ? button("×", "close this pane", () => this.set(() => choice.close(pane)), { class: "tsr-toggle" })
        : button("+ pass", "show another pass of this level beside this one", () => this.set(() => choice.duplicate(pane)), { class: "tsr-toggle", "data-another": level });
      const passes = passBar(stages, pane, (next) => this.step(pane, next), [mark, another]);
      for (const [each, node] of passes.badges) this.badges.set(each, node);
      section.append(passes.node);
    }
    section.append(code.node);
    return { pane, code, section, badge };
  }

  private text(pane: Pane) {
    const { data } = this;
    const gutters: Gutter[] = [];
    const arrows = branchGutter(pane);
    if (this.figures) gutters.push(...pane.columns.map(columnGutter));
    gutters.push(originGutter(pane, data.keys));
    if (arrows) gutters.push(arrows);
    return {
      language: pane.level, lines: pane.lines, gutters, folds: pane.body.folds,
      gone: this.changes ? pane.sent.ghosts : [],
      sign: this.changes ? (line: number) => pane.sent.signs[line] ?? " " : undefined,
      quiet: (line: number) => pane.quiet.has(line),
      hue: (line: number) => this.hues.get(data.keys[pane.keys[line]][0][0]) ?? "",
    };
  }

  private tab(level: string): HTMLElement {
    const chosen = level === this.choice.level;
    const badge = make("span");
    this.tabs.set(level, badge);
    return make("button", { type: "button", class: "tsr-tab", role: "tab", "aria-selected": String(chosen), tabindex: chosen ? 0 : -1, title: this.data.captions[level],
      "data-level": level, onclick: () => this.open(level) }, level, badge);
  }

  private open(level: string): void {
    this.choice.level = level;
    this.layout();
    this.body.querySelector<HTMLElement>('[role=tab][aria-selected="true"]')?.focus({ preventScroll: true });
  }

  /** Show another pass in the column of `pane`. */
  private step(pane: Pane, next: Pane): void {
    this.choice.step(pane, next);
    this.changes = true;
    this.layout();
    this.body.querySelector<HTMLElement>(`[data-pane="${next.index}"][aria-checked="true"]`)?.focus({ preventScroll: true });
  }

  /** Bring a pane on the screen and return its code. */
  private show(pane: Pane): CodePane {
    this.choice.show(pane);
    this.layout();
    return this.columns.find((column) => column.pane === pane)!.code;
  }

  private choose(code: CodePane, line: number): void {
    const pane = this.paneOf(code), chosen = ofLine(this.data, pane, line);
    this.last = pane ?? this.last;
    this.selected = { ...chosen, code, line };
    this.refresh(true);
    this.context.bus.select(forOthers(this.data, chosen, pane, line), this.root);
  }

  /** Somebody else selected. */
  private hear(selection: Context["bus"]["selection"]): void {
    this.selected = selection && { ...ofOthers(this.data, selection), code: null, line: -1 };
    this.refresh(true);
  }

  private paneOf(code: CodePane | null): Pane | undefined {
    return this.columns.find((column) => column.code === code)?.pane;
  }

  /** Draw marks, counts and the status line for the present selection and search. */
  private refresh(scroll = false): void {
    const { data, selected, search } = this;
    const on = selected && held(data.keys, selected);
    const marked = new Map(this.panes.map((pane) => [pane, on ? marksOf(pane, on) : null]));
    const counts = new Map(this.panes.map((pane) => [pane, marked.get(pane)?.[1] ?? 0]));
    for (const { pane, code } of this.columns) code.mark(marked.get(pane)?.[0] ?? null, selected?.code === code ? selected.line : null, scroll);
    const { marks, exact } = inSource(data, selected);
    this.source.mark(marks, selected?.code === this.source ? selected.line : null, scroll);
    this.source.exact(exact);
    const write = (badge: HTMLElement, pane: Pane): void => {
      const count = search.query ? search.count(pane) : selected ? counts.get(pane)! : null;
      writeBadge(badge, count, search.query ? " tsr-hits" : "");
      badge.title = count === null ? "" : search.query ? `${plural(count, "line")} found` : count ? plural(count, "counterpart") : "no counterpart";
    };
    for (const [level, badge] of this.tabs) write(badge, this.choice.chosen[level]);
    for (const { pane, badge } of this.columns) write(badge, pane);
    for (const [pane, badge] of this.badges) write(badge, pane);
    for (const code of this.codes()) code.find(search.query ? search.found(code.lines) : null);
    this.foot.replaceChildren(...status(data, this.panes, this.choice, selected, counts, this.columns[0]?.pane));
    this.root.dataset.selected = selected ? [...selected.places].join(",") : "";
    const last = selected?.code ?? this.columns[0]?.code;
    if (last) this.explain(last, selected?.code ? selected.line : last.current);
  }

  private find(): void {
    this.refresh();
    if (!this.search.query) return;
    for (const code of this.codes()) {
      const first = this.search.found(code.lines).indexOf(1);
      if (first >= 0) code.reveal(first);
    }
  }

  /** The first pane with a hit. */
  private searched(): CodePane | undefined {
    const { search } = this;
    return search.query ? [...this.columns.map((column) => column.code), this.source].find((code) => search.found(code.lines).includes(1)) : undefined;
  }

  private explain(code: CodePane, line: number): void {
    const pane = this.paneOf(code);
    const measured = code === this.source && this.measured ? measurement(this.measured, line) : [];
    const told = pane && line < pane.keys.length ? explanation(this.data, this.panes, pane, line, (...to) => this.jump(...to)) : [];
    this.info.replaceChildren(...measured, ...told);
  }

  /** Go to the pass `pane`, where the operation `record` is on the line that pane number `seen` has it on. */
  private jump(pane: Pane, record: string, seen: number): void {
    const number = this.data.records.findIndex(([id]) => id === record);
    const line = [...this.panes[seen].records].indexOf(number);
    this.changes = true;
    const code = this.show(pane);
    code.goTo(Math.min(line, pane.keys.length - 1), true);
  }

  private hover(line: number | null, at: HTMLElement | null, code: CodePane): void {
    const pane = this.paneOf(code);
    const doc = line !== null && at?.classList.contains("tsr-k") && pane ? this.data.docs[pane.docs[line] ?? -1] : undefined;
    this.tip.hidden = !doc;
    if (!doc || !at) return;
    this.tip.replaceChildren(make("b", {}, doc[0]), ` ${doc[1]}`);
    const [box, here] = [this.root.getBoundingClientRect(), at.getBoundingClientRect()];
    const below = here.bottom - box.top + 4;
    this.tip.style.left = `${Math.max(4, Math.min(here.left - box.left, box.width - this.tip.offsetWidth - 8))}px`;
    this.tip.style.top = `${below + this.tip.offsetHeight < box.height ? below : here.top - box.top - this.tip.offsetHeight - 4}px`;
  }

  private link(): void {
    const { selected } = this;
    const code = selected?.code ?? this.columns[0].code;
    const hash = fragment(this.data, this.paneOf(code), selected?.code ? selected.line : code.current);
    // In a notebook the fragment is the notebook's own.
    if (!document.querySelector(".jp-Notebook")) history.replaceState(null, "", hash);
    void copy(location.href.replace(/#.*$/, "") + hash, this.root);
    this.foot.replaceChildren(make("b", {}, "copied"), make("span", {}, decodeURIComponent(hash)));
  }

  /** Select the line that the page's fragment names. */
  private follow(): void {
    const found = named(this.data, this.panes, location.hash);
    if (!found) return;
    const code = found.pane ? this.show(found.pane) : this.source;
    code.goTo(found.line);
    this.choose(code, found.line);
  }

  private escape(event: KeyboardEvent): void {
    if (event.key !== "Escape" || !(this.selected || this.search.query)) return;
    event.stopPropagation();
    event.preventDefault();
    this.selected = null;
    this.search.clear();
    this.context.bus.select(null, this.root);
    this.refresh();
  }
}

register("explorer", (root: HTMLElement, data: Payload, context: Context) => {
  const show = (sent: Payload): Explorer => new Explorer(root, sent, context, (next) => {
    shown.destroy();
    shown = show(next);
  });
  let shown = show(data);
  return { destroy: () => shown.destroy() };
}, style);
