// The film of a compilation: rows are kept from step to step, so that what moves is seen moving (FLIP by identity).
import { button, make, paintExact, plural, register, type Context } from "../core";
import style from "../diff/film.css";

type PackedLine = number | [number, number, number, string, number[], [number, number][]];
interface Payload {
  title: string;
  text: string;
  group: string;
  signs: Record<string, string>;
  texts: string[];
  places: [number[], number[]][];
  frames: { stage: string; options: string; time: string; told: string; lines: PackedLine[] }[];
}
/** A line of a step; `key` is the same in every step that has it. */
interface Line {
  key: number;
  text: string;
  lines: number[];
  ops: number[];
  kind: string;
  madeOf: number[];
  marks: [number, number][];
}

const HEIGHT = 18;
const STEP_MS = 1600;
const MOVE_MS = 450;

function unpacked(data: Payload): Line[][] {
  let keys = 0;
  const found: Line[][] = [];
  for (const frame of data.frames) {
    const before = found[found.length - 1] ?? [];
    found.push(frame.lines.map((packed): Line => {
      if (typeof packed === "number") return { ...before[packed], kind: "", marks: [], madeOf: [] };
      const [was, text, place, kind, madeOf, marks] = packed;
      const [lines, ops] = data.places[place];
      return { key: was >= 0 ? before[was].key : keys++, text: data.texts[text], lines, ops, kind, madeOf: madeOf.map((line) => before[line].key), marks };
    }));
  }
  return found;
}

function mount(root: HTMLElement, data: Payload, context: Context) {
  const steps = unpacked(data);
  const rows = new Map<number, HTMLElement>();
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  let step = -1;
  let playing: ReturnType<typeof setInterval> | undefined;
  let selected: { lines: Set<number>; ops: Set<number> } | null = null;

  const name = make("b", { class: "tsr-film-pass" });
  const facts = make("span", { class: "tsr-soft" });
  const told = make("span", { class: "tsr-film-told" });
  const status = make("div", { class: "tsr-foot", role: "status", "aria-live": "polite" });
  const stage = make("div", { class: "tsr-film-stage" });
  const box = make("div", { class: "tsr-film-box", tabindex: 0, role: "group", "aria-label": `${data.title}; left and right step, space plays`, onclick: (event) => choose(event) }, stage);
  const slider = make("input", { type: "range", min: 0, max: steps.length - 1, value: 0, "aria-label": "pass", oninput: () => go(Number(slider.value)) });
  const strip = make("div", { class: "tsr-film-strip", role: "group", "aria-label": "passes" }, ...data.frames.map((frame, number) => {
    const count = frame.lines.filter((line) => typeof line !== "number" && line[3]).length;
    return make("button", { type: "button", title: `${frame.stage}: ${frame.told}`, "aria-label": `${frame.stage}: ${frame.told}`, class: number && frame.told === "no changes" ? "tsr-film-idle" : null, style: `--n:${Math.min(24, 3 + 2 * count)}px`, onclick: () => go(number) });
  }));
  const play = button("▶", "play (space)", () => toggle());

  const go = (wanted: number): void => {
    const next = Math.max(0, Math.min(steps.length - 1, wanted));
    if (next === step) return;
    const frame = data.frames[next];
    step = next;
    slider.value = String(next);
    slider.setAttribute("aria-valuetext", `${frame.stage}: ${frame.told}`);
    strip.querySelectorAll("button").forEach((each, i) => each.setAttribute("aria-current", i === next ? "step" : "false"));
    name.textContent = frame.stage || "Tile IR";
    facts.textContent = [`pass ${next + 1} of ${steps.length}`, frame.time, frame.options].filter(Boolean).join(" · ");
    told.textContent = frame.told;
    status.textContent = `${frame.stage}: ${frame.told}`;
    draw();
  };

  const at = (place: number): string => `translateY(${place * HEIGHT}px)`;
  const move = (row: HTMLElement, frames: Keyframe[]): Animation | null => (calm.matches ? null : row.animate(frames, { duration: MOVE_MS, easing: "ease" }));
  /** Lay the rows of this step; each comes from where it stood, in the order in which they are read. */
  const draw = (): void => {
    const lines = steps[step];
    const here = new Set(lines.map((line) => line.key));
    const places = new Map<number, number>();
    rows.forEach((row, key) => places.set(key, Number(row.dataset.at)));
    for (const [key, row] of [...rows]) if (!here.has(key)) leave(key, row);
    lines.forEach((line, place) => {
      const known = rows.get(line.key);
      const row = known ?? make("div", {});
      rows.set(line.key, row);
      // What was made of others comes from where they stood.
      const from = known ? places.get(line.key)! : line.madeOf.map((key) => places.get(key)).find((old) => old !== undefined);
      row.dataset.at = String(place);
      row.dataset.key = String(line.key);
      row.className = `tsr-film-row${line.kind ? ` tsr-film-k-${line.kind}` : ""}`;
      row.innerHTML = `<span class="tsr-film-sign" title="${line.kind}">${line.kind ? data.signs[line.kind] : ""}</span>${line.kind ? `<span class="tsr-spoken">${line.kind}</span>` : ""}<span class="tsr-film-code">${paintExact(line.text, "tile", line.marks)}</span>`;
      row.style.transform = at(place);
      if (stage.children[place] !== row) stage.insertBefore(row, stage.children[place] ?? null);
      if (!known) move(row, [{ transform: from === undefined ? `${at(place)} translateX(24px)` : at(from), opacity: 0 }, { transform: at(place), opacity: 1 }]);
      else if (from !== place) move(row, [{ transform: at(from!) }, { transform: at(place) }]);
    });
    stage.style.height = `${lines.length * HEIGHT}px`;
    mark();
  };
  const leave = (key: number, row: HTMLElement): void => {
    rows.delete(key);
    const place = Number(row.dataset.at);
    const fading = move(row, [{ transform: at(place), opacity: 1 }, { transform: `${at(place)} translateX(-24px)`, opacity: 0 }]);
    if (!fading) return row.remove();
    row.classList.add("tsr-film-gone");
    row.setAttribute("aria-hidden", "true");
    stage.append(row); // behind those that stay, whose order is that of the text
    fading.onfinish = fading.oncancel = () => row.remove();
  };

  const mark = (): number => {
    let count = 0;
    for (const line of steps[step]) {
      const on = selected !== null && (selected.ops.size && line.ops.length ? line.ops.some((op) => selected!.ops.has(op)) : line.lines.some((each) => selected!.lines.has(each)));
      rows.get(line.key)!.classList.toggle("tsr-film-on", on);
      count += Number(on);
    }
    return count;
  };
  const choose = (event: MouseEvent): void => {
    const row = (event.target as HTMLElement).closest<HTMLElement>(".tsr-film-row");
    const line = row && steps[step].find((each) => String(each.key) === row.dataset.key);
    if (!line) return;
    selected = { lines: new Set(line.lines), ops: new Set(line.ops) };
    mark();
    context.bus.select({ lines: line.lines, ops: line.ops, label: line.text.trim() }, root);
    status.textContent = `${line.kind || "unchanged"}: ${line.text.trim()}`;
  };

  const pause = (): void => {
    clearInterval(playing);
    playing = undefined;
    play.textContent = "▶";
    play.title = "play (space)";
    play.setAttribute("aria-label", play.title);
  };
  const toggle = (): void => {
    if (playing !== undefined) return pause();
    if (step === steps.length - 1) go(0);
    play.textContent = "❚❚";
    play.title = "pause (space)";
    play.setAttribute("aria-label", play.title);
    playing = setInterval(() => (step < steps.length - 1 ? go(step + 1) : pause()), STEP_MS);
  };
  const keys = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const onButton = (event.target as HTMLElement).tagName === "BUTTON";
    const to: Record<string, number> = { ArrowLeft: step - 1, ArrowRight: step + 1, Home: 0, End: steps.length - 1 };
    if (event.key in to) go(to[event.key]);
    else if (event.key === " " && !onButton) toggle();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  root.addEventListener("keydown", keys);
  root.append(
    make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, data.title), make("span", { class: "tsr-grow" }),
      button("◀", "pass before (left)", () => go(step - 1)), play, button("▶|", "next pass (right)", () => go(step + 1))),
    make("div", { class: "tsr-bar" }, name, facts, make("span", { class: "tsr-grow" }), told),
    strip,
    make("div", { class: "tsr-film-slide" }, slider),
    box,
    status,
  );
  go(0);
  status.textContent = `${plural(steps.length, "step")}: left and right step, space plays`;
  const stop = context.bus.subscribe(root, (selection) => {
    selected = selection && { lines: new Set(selection.lines), ops: new Set(selection.ops) };
    const count = mark();
    const what = selection?.label ?? "selection";
    status.textContent = !selection ? "" : count ? `${what}: ${plural(count, "line")}` : `${what}: no counterpart here`;
  });
  return {
    destroy: () => {
      stop();
      pause();
      root.removeEventListener("keydown", keys);
    },
  };
}

register("film", mount, style);
