(() => {
  "use strict";
  // The same rule as Selection.holds in ir_view.py: common operations, else common source lines.
  const holds = (selection, key) =>
    selection.ops.size && key.ops.length
      ? key.ops.some((op) => selection.ops.has(op))
      : key.sources.some((line) => selection.sources.has(line));

  const HUES = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#0072b2", "#d55e00", "#b3a300", "#8c7bd1"];
  const SIGNS = { "+": "new", "~": "changed", ">": "moved" };
  const CHUNK = 200;
  const ROW = 18;

  // A tokenizer small enough to send with every output: one regular expression a language.
  const WORDS = {
    source: [
      ["x", "#.*"],
      ["s", "\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'"],
      ["k", "\\b(?:def|for|if|elif|else|while|in|return|and|or|not|from|import|as|True|False|None|mut|pass|with|class|lambda)\\b|@[\\w.]+"],
      ["t", "\\b(?:[fiu](?:8|16|32|64)|bf16|tf32|fp8_e\\dm\\d|bool|float|int|tensor|Tensor)\\b"],
      ["0", "\\b\\d[\\w.]*"],
    ],
    mlir: [
      ["x", "//.*"],
      ["s", "\"(?:[^\"\\\\]|\\\\.)*\""],
      ["t", "\\b(?:vector|tensor|memref|tile|array|shared)<(?:[^<>]|<[^<>]*>)*>|!\\w[\\w.<>]*|\\b(?:[fi]\\d+|f8E\\dM\\d(?:FN)?|bf16|tf32|index)\\b"],
      ["v", "[%@^#][\\w$.#-]+"],
      ["k", "\\b[a-z_]\\w*\\.[\\w.]+|\\b(?:func|return|mut|kind|to|step|iter_args|else|do|module|attributes)\\b"],
      ["0", "-?\\b\\d[\\w.+]*"],
    ],
    llvm: [
      ["x", ";.*"],
      ["s", "c?\"(?:[^\"\\\\]|\\\\.)*\""],
      ["v", "[%@!#][\\w$.-]+"],
      ["t", "<\\d+ x \\w+>|\\b(?:i\\d+|float|double|half|bfloat|ptr|void|label)\\b"],
      ["k", "^\\s*(?:define|declare|ret|br|store|call|tail|switch|unreachable)\\b|(?<== )(?:tail )?[a-z]\\w*"],
      ["0", "-?\\b\\d[\\w.+]*"],
    ],
    asm: [
      ["x", "#.*|//.*|;\\s*$|/\\*.*?\\*/"],
      ["s", "\"(?:[^\"\\\\]|\\\\.)*\""],
      ["k", "(?<=^\\s*(?:/\\*[\\da-f]+\\*/)?\\s*(?:@!?%?\\w+\\s+)?)\\.?[A-Za-z][\\w.]*(?=\\s|;|$)"],
      ["v", "%[\\w.]+|\\b(?:[xyz]mm\\d+|[re]?[abcd]x|[re]?[sd]i|[re]?[sbi]p|r\\d+[dwb]?|k[0-7]|U?[RP]\\d+|U?[RP][ZT])\\b"],
      ["0", "[-+]?\\b(?:0x)?\\d[\\w.]*"],
    ],
  };
  WORDS.tile = WORDS.target = WORDS.mlir;
  WORDS.ptx = WORDS.sass = WORDS.asm;
  const lexers = {};
  const lexer = (level) =>
    (lexers[level] ??= new RegExp((WORDS[level] || WORDS.mlir).map(([, word]) => `(${word})`).join("|"), "g"));
  const escape = (text) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const paint = (text, level) => {
    const words = WORDS[level] || WORDS.mlir;
    let html = "";
    let at = 0;
    for (const found of text.matchAll(lexer(level))) {
      const kind = words[found.slice(1).findIndex((group) => group !== undefined)][0];
      html += escape(text.slice(at, found.index)) + `<span class="tsr-${kind}">${escape(found[0])}</span>`;
      at = found.index + found[0].length;
    }
    return html + escape(text.slice(at));
  };

  const make = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
  };
  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

  // One scrolling text: the source, or one stage of one level.
  class Text {
    constructor(owner, options) {
      Object.assign(this, { owner, ...options });
      this.rows = new Map();
      this.ruler = make("div", { class: "tsr-ruler", "aria-hidden": "true" });
      this.box = make("div", { class: "tsr-text" + (this.level === "source" ? " tsr-src" : ""), role: "listbox", "aria-label": this.label });
      this.node = make("div", { class: "tsr-hold" }, this.box, this.ruler);
      this.box.addEventListener("click", (event) => this.clicked(event.target.closest("[data-i]")));
      this.box.addEventListener("keydown", (event) => this.pressed(event));
      this.show(this.lines, this.keys, this.signs, this.ghosts);
    }

    show(lines, keys, signs = "", ghosts = []) {
      Object.assign(this, { lines, keys, signs, ghosts });
      const gone = new Map();
      for (const [before, text] of ghosts) gone.set(before, [...(gone.get(before) || []), text]);
      const chunks = [];
      for (let start = 0; start < lines.length || start === 0; start += CHUNK) {
        const stop = Math.min(lines.length, start + CHUNK);
        let html = "";
        for (let i = start; i < stop; i++) html += this.ghostRows(gone.get(i)) + this.row(i);
        if (stop === lines.length) html += this.ghostRows(gone.get(stop));
        // The exact height, so that scrolling to a row that was never drawn finds it.
        const tall = (html.match(/<div /g) || []).length * ROW;
        chunks.push(`<div class="tsr-chunk" role="presentation" style="contain-intrinsic-block-size:${tall}px">${html}</div>`);
      }
      this.box.innerHTML = `<div class="tsr-rows" role="presentation">${chunks.join("")}</div>`;
      this.rows = new Map([...this.box.querySelectorAll("[data-i]")].map((row) => [Number(row.dataset.i), row]));
      this.focusable(0);
    }

    ghostRows(texts = []) {
      return texts
        .map((text) => {
          const indent = text.length - text.trimStart().length;
          return `<div class="tsr-row tsr-gone" title="taken away by this pass"><span class="tsr-n"></span><span class="tsr-sign tsr-m">−</span><span class="tsr-from"></span><span class="tsr-code">${text.slice(0, indent)}<del>${escape(text.slice(indent))}</del></span></div>`;
        })
        .join("");
    }

    row(i) {
      const key = this.keys[i];
      const hue = key.sources.length ? ` style="--hue:${this.owner.hue(key.sources[0])}"` : "";
      const sign = { "+": '<span class="tsr-sign tsr-p">+</span>', "~": '<span class="tsr-sign tsr-c">~</span>', ">": '<span class="tsr-sign tsr-c">↕</span>' };
      const from = this.level === "source" ? "" : key.sources.length ? escape(`L${key.sources[0]}${key.sources.length > 1 ? "+" : ""}`) : "·";
      const told = this.level === "source" ? "" : key.sources.length ? `from line ${key.sources.join(", ")}` : "the compiler's own: no source line";
      const signs = this.signs.trim() || this.ghosts.length ? sign[this.signs[i]] || '<span class="tsr-sign"></span>' : "";
      const name = SIGNS[this.signs[i]] ? `${SIGNS[this.signs[i]]} in this pass` : "";
      const title = [told, name].filter(Boolean).join("; ");
      return `<div class="tsr-row" role="option" aria-selected="false" tabindex="-1" data-i="${i}" title="${title}"${hue}><span class="tsr-n">${i + this.first}</span>${signs}<span class="tsr-from">${from}</span><span class="tsr-code">${paint(this.lines[i], this.level)}</span></div>`;
    }

    // One row takes part in the tab order; the arrow keys move it.
    focusable(i, focus = false) {
      this.rows.get(this.current)?.setAttribute("tabindex", "-1");
      const row = this.rows.get(i);
      if (!row) return;
      this.current = i;
      row.setAttribute("tabindex", "0");
      if (focus) {
        row.focus({ preventScroll: true });
        this.reveal(row);
      }
    }

    clicked(row) {
      if (!row || String(document.getSelection())) return;
      const i = Number(row.dataset.i);
      this.focusable(i, true);
      this.owner.select(this, i);
    }

    pressed(event) {
      const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 20, PageUp: -20, Home: -1e9, End: 1e9 }[event.key];
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (step !== undefined) {
        this.focusable(Math.max(0, Math.min(this.lines.length - 1, (this.current || 0) + step)), true);
      } else if (event.key === "Enter" || event.key === " ") {
        this.owner.select(this, this.current);
      } else if (event.key === "n" || event.key === "p") {
        this.walk(event.key === "n" ? 1 : -1);
      } else return;
      event.preventDefault();
    }

    // Go to the next counterpart (or search hit) below or above.
    walk(step) {
      const marked = [...this.rows.keys()].filter((i) => this.rows.get(i).matches(".tsr-on, .tsr-hit"));
      if (!marked.length) return;
      const after = step > 0 ? marked.find((i) => i > this.current) : marked.filter((i) => i < this.current).pop();
      this.focusable(after ?? marked[step > 0 ? 0 : marked.length - 1], true);
    }

    top(row) {
      return row.getBoundingClientRect().top - this.box.getBoundingClientRect().top + this.box.scrollTop;
    }

    reveal(row) {
      const [top, tall] = [this.top(row), this.box.clientHeight];
      if (top < this.box.scrollTop + 20 || top > this.box.scrollTop + tall - 40) this.box.scrollTop = top - tall / 3;
    }

    mark(selection, self) {
      let first = null;
      const ticks = [];
      for (const [i, row] of this.rows) {
        const on = !!selection && (this.level === "source" ? selection.places.has(i + this.first) : holds(selection, this.keys[i]));
        row.classList.toggle("tsr-on", on);
        row.classList.toggle("tsr-me", on && i === self);
        row.setAttribute("aria-selected", String(on));
        if (on) {
          first ??= row;
          ticks.push(i);
        }
      }
      // The ruler maps the whole text to the height of the box, once the text is taller than it.
      const tall = Math.max(this.box.scrollHeight, this.box.clientHeight, 1);
      const runs = [];
      for (const i of ticks) {
        if (runs.length && i - runs.at(-1)[1] <= 1 + this.lines.length / 300) runs.at(-1)[1] = i;
        else runs.push([i, i]);
      }
      this.ruler.replaceChildren(...runs.map(([from, to]) => {
        const [above, below] = [this.top(this.rows.get(from)), this.top(this.rows.get(to)) + ROW];
        return make("i", { style: `top:${(100 * above) / tall}%;height:max(3px, ${(100 * (below - above)) / tall}%)` });
      }));
      if (first && self === null) this.reveal(first);
    }

    find(query) {
      let hits = 0;
      for (const [i, row] of this.rows) {
        const hit = !!query && this.lines[i].toLowerCase().includes(query);
        row.classList.toggle("tsr-hit", hit);
        hits += hit;
      }
      return hits;
    }
  }

  class View {
    constructor(root, data) {
      Object.assign(this, { root, data });
      data.keys = data.keys.map(([sources, ops, spans]) => ({ sources, ops, spans }));
      for (const pane of data.panes) {
        pane.lines = pane.text.split("\n");
        pane.links = pane.keys.map((key) => data.keys[key]);
      }
      this.levels = [...new Set(data.panes.map((pane) => pane.level))];
      this.chosen = {};
      for (const level of this.levels) this.chosen[level] = data.panes.findLastIndex((pane) => pane.level === level);
      const known = [...new Set(data.keys.flatMap((key) => key.sources))].sort((a, b) => a - b);
      this.hues = new Map(known.map((line, i) => [line, HUES[i % HUES.length]]));
      this.level = data.open.find((level) => this.levels.includes(level)) ?? this.levels[0];
      this.all = data.open.length > 1;
      this.columns = new Set(this.all ? data.open : this.levels);
      this.changes = false;
      this.query = "";
      this.build();
    }

    hue(line) {
      return this.hues.get(line) ?? "transparent";
    }

    build() {
      const { data } = this;
      const used = new Set(data.keys.flatMap((key) => key.sources));
      this.source = new Text(this, {
        level: "source", label: "your source", first: data.first, lines: data.source,
        keys: data.source.map((_, i) => ({ sources: used.has(i + data.first) ? [i + data.first] : [], ops: [], spans: [] })),
      });
      this.search = make("input", { type: "search", placeholder: "search every level", "aria-label": "search every level",
        oninput: () => this.find(), onkeydown: (event) => event.key === "Enter" && this.texts[0]?.walk(event.shiftKey ? -1 : 1) });
      this.allButton = make("button", { type: "button", title: "every level side by side", "aria-pressed": "false",
        onclick: () => { this.all = !this.all; this.layout(); } }, "▥ side by side");
      this.picks = make("span", { class: "tsr-picks", role: "group", "aria-label": "levels shown" });
      const copy = make("button", { type: "button", title: "copy the text of the level shown", onclick: () => this.copy(copy) }, "copy");
      const head = make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, data.name),
        make("span", { class: "tsr-pill" }, data.target), make("span", { class: "tsr-grow" }), this.search, this.picks, this.allButton, copy);
      this.body = make("div", { class: "tsr-body" });
      this.foot = make("div", { class: "tsr-foot", role: "status", "aria-live": "polite" });
      this.root.querySelector(".tsr-plain").hidden = true;
      this.root.append(head, this.body, this.foot);
      this.root.addEventListener("keydown", (event) => this.escape(event));
      this.layout();
    }

    layout() {
      this.allButton.setAttribute("aria-pressed", String(this.all));
      this.allButton.textContent = this.all ? "▤ one level" : "▥ side by side";
      const left = make("section", { class: "tsr-pane", "aria-label": "your source" },
        make("div", { class: "tsr-bar" }, make("span", { class: "tsr-title" }, this.data.label)), this.source.node);
      this.tabs = new Map();
      this.badges = new Map();
      this.texts = [];
      const shown = this.all ? this.levels.filter((level) => this.columns.has(level)) : [this.level];
      const panes = shown.map((level) => this.pane(level));
      this.picks.replaceChildren(...(this.all ? this.levels.map((level) => this.pick(level)) : []));
      // As tall as the levels shown need, whichever of their passes is chosen.
      const stages = this.data.panes.filter((pane) => shown.includes(pane.level));
      const longest = Math.max(this.data.source.length, ...stages.map((pane) => pane.lines.length + pane.ghosts.length));
      this.body.style.setProperty("--tall", `${Math.min(34, Math.max(8, longest + 2)) * ROW + 66}px`);
      this.body.classList.toggle("tsr-all", this.all);
      this.body.replaceChildren(left, ...panes);
      this.refresh(true);
    }

    // Side by side, each level can be left out.
    pick(level) {
      const chosen = this.columns.has(level);
      const choose = () => {
        if (!this.columns.delete(level)) this.columns.add(level);
        if (!this.columns.size) this.columns.add(level);
        this.layout();
        this.picks.querySelector(`[data-pick="${level}"]`).focus({ preventScroll: true });
      };
      return make("button", { type: "button", class: "tsr-toggle", "data-pick": level, "aria-pressed": String(chosen),
        title: this.data.captions[level], onclick: choose }, level);
    }

    // A pane: a bar of tabs (or the level's name), the passes of the level, and the text.
    pane(level) {
      const bar = make("div", { class: "tsr-bar" });
      if (this.all) {
        const count = make("span");
        this.tabs.set(level, count);
        bar.append(make("span", { class: "tsr-title", title: this.data.captions[level] }, level, count));
      } else {
        bar.setAttribute("role", "tablist");
        bar.setAttribute("aria-label", "levels of the compiler");
        for (const each of this.levels) bar.append(this.tab(each));
        bar.addEventListener("keydown", (event) => this.roam(event, bar, "[role=tab]"));
      }
      const index = this.chosen[level];
      const pane = this.data.panes[index];
      const text = new Text(this, { level, label: this.data.captions[level], first: 1, lines: pane.lines, keys: pane.links,
        signs: this.changes ? pane.signs : "", ghosts: this.changes ? pane.ghosts : [], index });
      this.texts.push(text);
      const section = make("section", { class: "tsr-pane", "aria-label": this.data.captions[level] }, bar);
      if (!this.all) section.setAttribute("role", "tabpanel");
      const stages = this.data.panes.map((each, i) => [each, i]).filter(([each]) => each.level === level);
      if (stages.length > 1) section.append(this.stages(stages));
      section.append(text.node);
      return section;
    }

    tab(level) {
      const chosen = level === this.level;
      const count = make("span");
      this.tabs.set(level, count);
      return make("button", { type: "button", class: "tsr-tab", role: "tab", "aria-selected": String(chosen), tabindex: chosen ? "0" : "-1",
        title: this.data.captions[level], "data-level": level, onclick: () => this.open(level) }, level, count);
    }

    open(level) {
      this.level = level;
      this.layout();
      this.body.querySelector('[role=tab][aria-selected="true"]')?.focus({ preventScroll: true });
    }

    // The passes of one level: every snapshot, with what it changed since the one before.
    stages(stages) {
      const bar = make("div", { class: "tsr-stages", role: "radiogroup", "aria-label": "after which pass" });
      bar.addEventListener("keydown", (event) => this.roam(event, bar, "[role=radio]"));
      stages.forEach(([pane, index], at) => {
        if (at) bar.append(make("span", { class: "tsr-then", "aria-hidden": "true" }, "›"));
        const deltas = make("span", { class: "tsr-delta" });
        const badge = make("span");
        const { fresh, changed, gone } = pane.counts;
        for (const [count, sign, kind] of [[fresh, "+", "p"], [changed, "~", "c"], [gone, "−", "m"]])
          if (count) deltas.append(make("i", { class: `tsr-${kind}` }, sign + count));
        const quiet = at > 0 && !fresh && !changed && !gone;
        const chosen = index === this.chosen[pane.level];
        if (chosen || !quiet) this.badges.set(pane, badge);
        const told = at === 0 ? "as built from the kernel" : quiet ? "changed nothing" : `${fresh} new, ${changed} changed or moved, ${gone} gone`;
        bar.append(make("button", { type: "button", role: "radio", class: "tsr-stage" + (quiet ? " tsr-same" : ""), "aria-checked": String(chosen),
          tabindex: chosen ? "0" : "-1", title: `${pane.stage}: ${told}`, "data-pane": index,
          "aria-label": `${pane.stage}: ${told}`, onclick: () => this.choose(index) }, quiet && !chosen ? "○" : pane.stage, deltas, badge));
      });
      bar.append(make("span", { class: "tsr-grow" }), make("button", { type: "button", class: "tsr-toggle", "aria-pressed": String(this.changes),
        title: "mark what this pass changed: + new, ~ changed, ↕ moved, − gone", onclick: () => { this.changes = !this.changes; this.layout(); } },
        this.changes ? "± changes on" : "± changes"));
      return bar;
    }

    choose(index) {
      const pane = this.data.panes[index];
      this.chosen[pane.level] = index;
      this.changes = true;
      this.layout();
      this.body.querySelector(`[data-pane="${index}"]`)?.focus({ preventScroll: true });
    }

    // Arrow keys among the buttons of a group, as WAI-ARIA asks.
    roam(event, group, what) {
      const buttons = [...group.querySelectorAll(what)];
      const at = buttons.indexOf(event.target.closest(what));
      const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
      if (at < 0 || to === undefined) return;
      event.preventDefault();
      buttons[(to + buttons.length) % buttons.length].click();
    }

    select(text, i) {
      const { data } = this;
      const line = i + data.first;
      const selection = { ops: new Set(), sources: new Set(), places: new Set(), spans: [], text, i };
      if (text.level === "source") {
        selection.sources.add(line);
        for (const [op, story] of Object.entries(data.ops)) if (story.place?.[0] === line) selection.ops.add(Number(op));
        selection.places.add(line);
      } else {
        const key = text.keys[i];
        key.ops.forEach((op) => selection.ops.add(op));
        key.sources.forEach((each) => selection.sources.add(each).size && selection.places.add(each));
        for (const op of key.ops) if (data.ops[op]?.place) selection.places.add(data.ops[op].place[0]);
        selection.spans = key.spans;
      }
      this.selection = selection;
      this.refresh(true);
    }

    count(pane) {
      return this.selection ? pane.links.reduce((sum, key) => sum + holds(this.selection, key), 0) : 0;
    }

    // Draw marks, counts and the status line for the present selection and search.
    refresh(scroll = false) {
      const { selection } = this;
      for (const text of [this.source, ...this.texts]) {
        const own = selection && text.index === selection.text.index && text.level === selection.text.level;
        text.mark(selection, own ? selection.i : scroll ? null : -1);
      }
      this.exact(selection?.spans ?? []);
      for (const [level, badge] of this.tabs) {
        const pane = this.data.panes[this.chosen[level]];
        const hits = this.query ? pane.lines.filter((line) => line.toLowerCase().includes(this.query)).length : 0;
        const count = this.query ? hits : this.count(pane);
        const shown = this.query || selection;
        this.badge(badge, shown ? count : null, this.query ? " tsr-hits" : "");
        badge.title = this.query ? plural(hits, "line") + " found" : shown ? plural(count, "counterpart") : "";
      }
      for (const [pane, badge] of this.badges) this.badge(badge, selection ? this.count(pane) : null);
      this.source.find(this.query);
      for (const text of this.texts) text.find(this.query);
      this.foot.replaceChildren(...this.status());
      this.root.dataset.selected = selection ? [...selection.places].join(",") : "";
    }

    badge(node, count, kind = "") {
      node.className = count === null ? "" : `tsr-count${kind}${count ? "" : " tsr-none"}`;
      node.textContent = count ?? "";
    }

    // Underlay the exact expressions in the source that the selected line came from.
    exact(spans) {
      for (const i of this.painted ?? []) this.source.rows.get(i)?.querySelector(".tsr-code").replaceChildren(this.restored(i));
      this.painted = [];
      for (const [line, start, stop] of spans) {
        const i = line - this.data.first;
        const code = this.source.rows.get(i)?.querySelector(".tsr-code");
        if (!code || this.painted.includes(i)) continue;
        const chars = [...this.data.source[i]];
        const [head, body, tail] = [chars.slice(0, start - 1), chars.slice(start - 1, stop - 1), chars.slice(stop - 1)];
        code.innerHTML = [head, body, tail].map((part, at) => {
          const html = paint(part.join(""), "source");
          return at === 1 ? `<span class="tsr-exact">${html}</span>` : html;
        }).join("");
        this.painted.push(i);
      }
    }

    restored(i) {
      const template = make("template");
      template.innerHTML = paint(this.data.source[i], "source");
      return template.content;
    }

    status() {
      const { selection, data } = this;
      if (!selection) {
        const keys = make("span", { class: "tsr-keys" });
        keys.innerHTML = "click a line to see what it became &nbsp;·&nbsp; <kbd>↑</kbd> <kbd>↓</kbd> <kbd>Enter</kbd> &nbsp;<kbd>n</kbd> <kbd>p</kbd> next, previous &nbsp;<kbd>Esc</kbd> clear";
        return [keys, make("span", { class: "tsr-grow" }), this.coverage()];
      }
      const parts = [];
      const places = [...selection.places].sort((a, b) => a - b);
      parts.push(make("b", {}, places.length ? `line ${places.join(", ")}` : "no source line: the compiler's own"));
      const trail = this.levels.map((level) => `${level} ${this.count(data.panes[this.chosen[level]])}`);
      parts.push(make("span", { class: "tsr-trail" }, trail.join("  →  ")));
      const told = this.story([...selection.ops]);
      if (told) parts.push(make("span", { class: "tsr-grow" }), make("span", { class: "tsr-story" }, told));
      return parts;
    }

    // How much of the shown level has a source line, said honestly.
    coverage() {
      const text = this.texts[0];
      const own = text.keys.filter((key) => key.sources.length).length;
      return make("span", {}, `${text.level}: ${plural(text.lines.length, "line")}, ${own} from your source, ${text.lines.length - own} the compiler's own`);
    }

    story(ops) {
      if (!ops.length) return "";
      if (ops.length > 1) return `${ops.length} operations`;
      const story = this.data.ops[ops[0]];
      if (!story) return "";
      const { panes } = this.data;
      const alone = (level) => panes.filter((pane) => pane.level === level).length === 1;
      const where = (i) => (alone(panes[i].level) ? panes[i].level : `${panes[i].level}/${panes[i].stage}`);
      const fused = story.mates.length ? `, together with ${story.mates.length} more` : "";
      return `operation ${ops[0]}: born in ${where(story.born)}, seen down to ${where(story.last)}${fused}`;
    }

    find() {
      this.query = this.search.value.trim().toLowerCase();
      this.refresh();
      if (this.query) for (const text of this.texts) {
        const hit = text.box.querySelector(".tsr-hit");
        if (hit) text.reveal(hit);
      }
    }

    escape(event) {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      if (this.selection || this.query) {
        this.selection = null;
        this.search.value = this.query = "";
        this.refresh();
      } else this.root.closest(".jp-Notebook, [tabindex]")?.focus({ preventScroll: true });
    }

    async copy(button) {
      const text = this.texts[0].lines.join("\n");
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        // A page that is not served over https has no clipboard: fall back to the old command.
        const area = make("textarea", { style: "position:fixed;opacity:0" });
        area.value = text;
        this.root.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
      }
      button.textContent = "copied";
      setTimeout(() => (button.textContent = "copy"), 1200);
    }
  }

  // Signs and counts have two sets of colours: which one is needed shows only in the computed background.
  const shade = (root) => {
    const [r, g, b] = getComputedStyle(root).backgroundColor.match(/[\d.]+/g).map(Number);
    root.classList.toggle("tsr-dark", 0.3 * r + 0.59 * g + 0.11 * b < 128);
  };
  const follow = (root) => {
    shade(root);
    const again = () => setTimeout(() => shade(root), 50);
    new MutationObserver(again).observe(document.body, { attributes: true, attributeFilter: ["class", "data-jp-theme-name", "data-jp-theme-light"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  };

  // Large data come packed: deflated, in base64.
  const unpack = async (node) => {
    if (!("packed" in node.dataset)) return JSON.parse(node.textContent);
    const bytes = Uint8Array.from(atob(node.textContent), (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  };

  for (const root of document.querySelectorAll(".tsr-ir:not([data-found])")) {
    const node = root.querySelector(".tsr-data");
    if (!node) continue;
    root.dataset.found = "1";
    unpack(node).then((data) => {
      new View(root, data);
      follow(root);
      root.dataset.ready = "1";
    });
  }
})();
