// The visual diff: two stages side by side or in one column, changes by kind, figures of both sides.
import { button, make, plural, register, table, type Context } from "../core";
import { unpacked, type Change, type Comparison, type Figure, type Payload, type Wanted } from "../diff/model";
import { Pane } from "../diff/pane";
import style from "../diff/diff.css";

const MOST_LISTED = 200;

function mount(root: HTMLElement, data: Payload, context: Context) {
  const known = new Map<string, Comparison>();
  const packed = new Map(data.pairs.map((pair) => [pair.at.join(), pair]));
  const kinds = Object.keys(data.signs);
  const wanted: Wanted = { kinds: new Set(kinds), attributes: true, locations: false };
  let chosen = data.chosen;
  let comparison: Comparison;

  const status = make("div", { class: "tsr-foot", role: "status", "aria-live": "polite" });
  const place = make("span", { class: "tsr-soft tsr-d-place" });
  const pane = new Pane(data.signs, {
    chosen: (_, lines, ops, words) => {
      context.bus.select({ lines, ops, label: words }, root);
      status.textContent = words;
    },
    stepped: (number, count) => (place.textContent = count ? `${number < 0 ? "–" : number + 1} of ${plural(count, "change")}` : "no changes"),
  }, `${data.title}; n and p go through the changes`);

  const get = async (pair: [number, number]): Promise<Comparison | null> => {
    const key = pair.join();
    if (known.has(key)) return known.get(key)!;
    let found = packed.get(key);
    let [texts, strings] = [data.texts, data.strings];
    if (!found) {
      if (!context.channel) return null;
      status.textContent = "comparing …";
      const reply = await context.channel.ask({ type: "compare", before: pair[0], after: pair[1] });
      if (reply.type === "error") {
        status.textContent = reply.error;
        return null;
      }
      ({ pair: found, texts, strings } = reply);
    }
    const one = unpacked(found!, texts, strings);
    known.set(key, one);
    return one;
  };

  // The sides
  const selects = ([0, 1] as const).map((side) => {
    const list = make("select", { "aria-label": side ? "after" : "before", onchange: () => void choose(side, Number(list.value)) });
    data.choices[side].forEach(([level, stage], i) => list.append(make("option", { value: i }, stage ? `${level} · ${stage}` : `${level} · final`)));
    return list;
  });
  const labels = [0, 1].map(() => make("span", { class: "tsr-d-label" }));
  const possible = (side: 0 | 1, value: number): [number, number] | null => {
    const pair: [number, number] = side ? [chosen[0], value] : [value, chosen[1]];
    if (packed.has(pair.join())) return pair;
    const level = data.choices[side][value][0];
    if (context.channel && data.choices[1 - side][pair[1 - side]][0] === level) return pair;
    const near = data.pairs.filter((each) => each.at[side] === value).sort((a, b) => Math.abs(a.at[1 - side] - chosen[1 - side]) - Math.abs(b.at[1 - side] - chosen[1 - side]))[0];
    if (near) return near.at;
    if (!context.channel) return null;
    const other = data.choices[1 - side].map((each) => each[0]).lastIndexOf(level);
    return other < 0 ? null : side ? [other, value] : [value, other];
  };
  const choose = async (side: 0 | 1, value: number): Promise<void> => {
    const pair = possible(side, value);
    const found = pair && (await get(pair));
    if (!pair || !found) {
      show();
      if (!context.channel) status.textContent = "this pair is not in the page: a live view (.widget()) compares any two stages";
      return;
    }
    chosen = pair;
    comparison = found;
    show();
  };

  // Kinds
  const pills = make("span", { class: "tsr-d-kinds", role: "group", "aria-label": "kinds of changes" });
  const list = make("div", { class: "tsr-d-changes" });
  const counted = (kind: string): number => comparison.changes.filter((change) => change.kind === kind && (change.sides[0].length || change.sides[1].length) && !(change.kind === "changed" && !change.moved && change.fields.every((field) => field === "locations"))).length;

  const show = (): void => {
    selects.forEach((select, side) => {
      select.value = String(chosen[side]);
      [...select.options].forEach((option, i) => (option.disabled = i !== chosen[side] && possible(side as 0 | 1, i) === null));
      labels[side].textContent = data.sides[side].stages[chosen[side]];
    });
    pills.replaceChildren(...kinds.filter(counted).map((kind) => {
      const press: HTMLButtonElement = button(`${data.signs[kind]} ${counted(kind)} ${kind}`, `show what was ${kind}`, () => {
        if (!wanted.kinds.delete(kind)) wanted.kinds.add(kind);
        press.setAttribute("aria-pressed", String(wanted.kinds.has(kind)));
        refresh();
      }, { class: `tsr-pill tsr-k-${kind}`, "aria-pressed": String(wanted.kinds.has(kind)) });
      press.removeAttribute("aria-label");
      return press;
    }));
    if (!pills.childElementCount) pills.append(make("span", { class: "tsr-soft" }, "no changes"));
    refresh();
    status.textContent = `${plural(comparison.kept, "operation")} unchanged`;
  };
  const refresh = (): void => {
    pane.language = data.choices[0][chosen[0]][0];
    pane.show(comparison, wanted);
    fill();
  };
  const fill = (): void => {
    if (!list.hidden) list.replaceChildren(...kinds.filter((kind) => pane.countOf(kind)).map((kind) => group(kind)));
  };
  const group = (kind: string): HTMLElement => {
    const found = comparison.changes.map((change, number) => ({ change, number })).filter(({ change }) => change.kind === kind && (change.sides[0].length || change.sides[1].length));
    const listed = found.slice(0, MOST_LISTED).map(({ change, number }) => button(line(change), `go to: ${change.words}`, () => pane.reveal(number), { class: "tsr-d-entry" }));
    return make("details", { open: kind !== "changed" || found.length < 30 },
      make("summary", {}, `${data.signs[kind]} ${kind} (${found.length.toLocaleString("en")})`), ...listed,
      found.length > MOST_LISTED ? make("div", { class: "tsr-soft" }, `and ${(found.length - MOST_LISTED).toLocaleString("en")} more`) : null);
  };
  const line = (change: Change): string => {
    const at = change.sides[1][0] ?? change.sides[0][0];
    return `${at + 1}  ${change.words}`;
  };

  // Controls
  const toggle = (label: string, title: string, on: boolean, act: (on: boolean) => void): HTMLButtonElement => {
    const press: HTMLButtonElement = make("button", { type: "button", title, "aria-pressed": String(on), onclick: () => {
      on = !on;
      press.setAttribute("aria-pressed", String(on));
      act(on);
    } }, label);
    return press;
  };
  const unify = toggle("one column", "both sides in one column (u)", false, (on) => {
    pane.unified = on;
    pane.lay();
  });
  const listing = toggle("list", "list of the changes", false, (on) => {
    list.hidden = !on;
    fill();
  });
  list.hidden = true;
  root.append(
    make("div", { class: "tsr-head" },
      make("span", { class: "tsr-name" }, "diff"),
      data.verdict && make("span", { class: `tsr-pill tsr-d-${data.verdict.level}`, title: data.verdict.details.join("\n") }, `results: ${data.verdict.text}`), pills, make("span", { class: "tsr-grow" }), place,
      button("↑", "previous change (p)", () => pane.go(-1)), button("↓", "next change (n)", () => pane.go(1)), listing, unify,
      Object.values(data.texts).some((text) => text.counts.some(Boolean)) ? toggle("instructions", "instructions of the machine code that the operations of each line became", false, (on) => {
        pane.counting = on;
        pane.lay();
      }) : null,
      toggle("attributes", "show changes of attributes alone", true, (on) => ((wanted.attributes = on), refresh())),
      toggle("locations", "show changes of places in the source alone", false, (on) => ((wanted.locations = on), refresh()))),
    make("div", { class: "tsr-d-sides" }, ...([0, 1] as const).map((side) => make("div", {}, make("b", { "aria-hidden": "true" }, side ? "+" : "−"), selects[side], labels[side]))),
    data.verdict && data.verdict.level !== "good" ? make("div", { class: `tsr-d-verdict tsr-d-${data.verdict.level}`, role: "alert" }, ...data.verdict.details.map((each) => make("div", {}, each))) : "",
    figures(data.figures, data.verdict?.details ?? []),
    make("div", { class: "tsr-d-split" }, list, pane.element),
    status,
  );
  const keys = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.target as HTMLElement).closest("select, input, textarea")) return;
    if (event.key === "n" || event.key === "p") pane.go(event.key === "n" ? 1 : -1);
    else if (event.key === "u") unify.click();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  root.addEventListener("keydown", keys);
  const stop = context.bus.subscribe(root, (selection) => {
    const counts = pane.mark(new Set(selection?.ops), new Set(selection?.lines));
    const what = selection?.label ?? "selection";
    status.textContent = !selection ? "" : counts[0] + counts[1] ? `${what}: ${plural(counts[0], "line")} before, ${plural(counts[1], "line")} after` : `${what}: no counterpart here`;
  });
  void get(chosen).then((found) => {
    comparison = found!;
    show();
  });
  return {
    destroy: () => {
      stop();
      root.removeEventListener("keydown", keys);
    },
  };
}

const number = (value: number): string => value.toLocaleString("en", { maximumFractionDigits: 2 });

/** Figures of both sides: those that differ at once, all of them as a table. */
function figures(all: Figure[], agreements: string[]): HTMLElement | string {
  if (!all.length) return "";
  const told = (each: Figure, value: number | null): string => (value === null ? each.note || "not measured" : `${number(value)} ${each.unit}`.trim());
  const delta = (each: Figure): number | null => (each.before === null || each.after === null ? null : each.after - each.before);
  const sign = (each: Figure): string => {
    const by = delta(each);
    return by === null ? "" : by === 0 ? "=" : `${by > 0 ? "+" : "−"}${number(Math.abs(by))}`;
  };
  const good = (each: Figure): string => {
    const by = delta(each);
    return !by || !each.better ? "" : by * each.better > 0 ? "tsr-p" : "tsr-m";
  };
  const differ = all.filter((each) => delta(each));
  return make("details", { class: "tsr-d-figures" },
    make("summary", {}, ...(differ.length ? differ.slice(0, 8).map((each) => make("span", { class: "tsr-d-figure" }, `${each.name} ${number(each.before!)} → ${told(each, each.after)} `, make("b", { class: good(each) }, sign(each)))) : ["figures of both sides: none differs"])),
    ...agreements.map((agreement) => make("div", { class: "tsr-d-agreement" }, agreement)),
    table(["", "before", "after", "difference"], all.map((each) => [each.name, told(each, each.before), told(each, each.after), make("span", { class: good(each) }, sign(each))]), [1, 2, 3]));
}

register("diff", mount, style);
