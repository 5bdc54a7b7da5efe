// The editor: one tab a level, a text with line numbers (or the options as a form), and what became of the last edit.
import { button, copy, make, register, table, type Context } from "../core";
import { takeBack } from "../edit/notebook";
import style from "./edit.css";

interface Option { name: string; summary: string; legal: (number | boolean)[]; value: number | boolean | null; has_effect: boolean }
interface Payload {
  title: string; kernel: string; target: string; first_line: number; levels: string[];
  texts: Record<string, string>; options: Option[];
}
interface Outcome {
  level: string; error: string; line: number; agreements: string[]; same: boolean | null; ratio: number | null;
  figures: { name: string; before: string; after: string; worse: boolean }[]; changes: Record<string, number>;
  text_diff: string; cell: string; note: string;
}
const NAMES: Record<string, string> = { source: "source", options: "schedule options", tile: "Tile IR", ptx: "PTX" };

function mount(root: HTMLElement, data: Payload, context: Context) {
  const levels = data.levels.filter((level) => level === "options" || data.texts[level]);
  const texts: Record<string, string> = { ...data.texts };
  const chosen: Record<string, number | boolean | null> = Object.fromEntries(data.options.map((option) => [option.name, option.value]));
  let level = levels[0];
  let outcome: Outcome | null = null;

  const area = make("textarea", { class: "tsr-area", spellcheck: "false", autocapitalize: "off", wrap: "off", "aria-label": `${data.kernel}: text to edit`, readonly: !context.live,
    oninput: () => { texts[level] = area.value; number(); }, onscroll: () => { numbers.scrollTop = area.scrollTop; }, onkeydown: (event: KeyboardEvent) => typed(event) });
  const numbers = make("div", { class: "tsr-numbers", "aria-hidden": "true" });
  const form = make("div", { class: "tsr-options" });
  const body = make("div", { class: "tsr-editor" }, numbers, area, form);
  const status = make("div", { class: "tsr-foot", role: "status", "aria-live": "polite" });
  const result = make("div", { class: "tsr-outcome" });

  const number = (): void => {
    const first = level === "source" ? data.first_line : 1;
    const rows = area.value.split("\n").length;
    const bad = outcome && outcome.error && outcome.level === level ? outcome.line : 0;
    numbers.replaceChildren(...Array.from({ length: rows }, (_, i) => make("div", { class: i + 1 === bad ? "tsr-bad" : null }, `${i + 1 === bad ? "✗ " : ""}${i + first}`)));
    tabs.querySelectorAll("button").forEach((tab) => tab.classList.toggle("tsr-edited", changed(tab.dataset.level!)));
  };
  const changed = (one: string): boolean => one === "options" ? data.options.some((option) => chosen[option.name] !== option.value) : texts[one] !== data.texts[one];
  // Tab indents, Escape leaves: the keyboard is not caught.
  const typed = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void apply();
    else if (event.key === "Tab" && !event.shiftKey && context.live) {
      area.setRangeText("    ", area.selectionStart, area.selectionEnd, "end");
      area.dispatchEvent(new Event("input"));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const show = (next: string): void => {
    level = next;
    tabs.querySelectorAll("button").forEach((tab) => tab.setAttribute("aria-selected", String(tab.dataset.level === level)));
    form.hidden = level !== "options";
    area.hidden = numbers.hidden = level === "options";
    if (level !== "options") area.value = texts[level];
    number();
  };
  const tabs = make("span", { role: "tablist", "aria-label": "what is edited" }, ...levels.map((one) =>
    make("button", { type: "button", role: "tab", "data-level": one, onclick: () => show(one) }, NAMES[one] ?? one)));
  const apply = async (): Promise<void> => {
    if (!context.channel || run.disabled) return;
    run.disabled = true;
    status.textContent = "compiling, checking and timing …";
    const given = level === "options" ? Object.fromEntries(Object.entries(chosen).filter(([name, value]) => value !== null && value !== data.options.find((o) => o.name === name)!.value)) : texts[level];
    const reply = await context.channel.ask({ type: "apply", level, given });
    run.disabled = false;
    if (reply.type === "error") {
      status.textContent = reply.error;
      return;
    }
    outcome = reply.outcome as Outcome;
    draw();
    number();
  };
  const draw = (): void => {
    const found = outcome!;
    if (found.error) {
      status.textContent = `not compiled${found.line ? `: line ${found.line}` : ""}`;
      result.replaceChildren(make("pre", { class: "tsr-error", tabindex: 0 }, found.error));
      return;
    }
    const verdict = found.same === null ? found.note : found.same ? "every output is the same to the bit" : "outputs differ";
    const speed = found.ratio === null ? "" : `; ${found.ratio.toFixed(2)} x as fast as the original`;
    status.textContent = `${NAMES[found.level]}: ${verdict}${speed}`;
    const changes = Object.entries(found.changes).filter(([, count]) => count).map(([kind, count]) => `${count} ${kind}`).join(", ");
    result.replaceChildren(
      make("ul", { class: found.same === false ? "tsr-m" : null }, ...found.agreements.map((line) => make("li", {}, line))),
      table(["figure", "original", "edited"], found.figures.map((each) => [each.name, each.before, `${each.after}${each.worse ? " ▲" : ""}`]), [1, 2], "measured, in turns, on copies of the arguments"),
      make("div", { class: "tsr-soft" }, changes ? `Tile IR, operations: ${changes}` : "Tile IR: no operation differs"),
      found.text_diff ? make("details", { open: true }, make("summary", {}, "the edit"), make("pre", { class: "tsr-change", tabindex: 0 }, ...found.text_diff.split("\n").map((row) =>
        make("span", { class: row.startsWith("+") ? "tsr-p" : row.startsWith("-") ? "tsr-m" : null }, `${row}\n`)))) : "",
    );
  };
  const back = async (): Promise<void> => {
    const text = outcome && !outcome.error && outcome.cell ? outcome.cell : texts.source;
    if (takeBack(root, data.texts.source, text)) status.textContent = "the cell holds the edit now: run it";
    else {
      await copy(text, root);
      status.textContent = "no cell holds the kernel's own lines: the text was copied instead";
    }
  };
  const reset = (): void => {
    if (level === "options") for (const option of data.options) chosen[option.name] = option.value;
    else texts[level] = data.texts[level];
    fill();
    show(level);
    status.textContent = "as it was";
  };
  const fill = (): void => form.replaceChildren(...data.options.filter((option) => option.has_effect).map((option) => {
    const pick = make("select", { "aria-label": option.name, disabled: !context.live, onchange: () => { chosen[option.name] = pick.value === "" ? null : JSON.parse(pick.value); number(); } },
      make("option", { value: "" }, "the compiler decides"), ...option.legal.map((value) => make("option", { value: JSON.stringify(value), selected: chosen[option.name] === value }, String(value))));
    return make("label", {}, make("b", {}, option.name), pick, make("span", { class: "tsr-soft" }, option.summary));
  }));
  const run = button("compile and compare", "compile the edit, check its numbers and time it (Ctrl+Enter)", () => void apply(), { disabled: !context.live });
  root.append(
    make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, data.title), make("span", { class: "tsr-pill" }, data.target), tabs, make("span", { class: "tsr-grow" }),
      button("reset", "take this level's edit back", reset, { disabled: !context.live }), button("take back to the cell", "put the edited kernel into the cell that defines it", () => void back(), { disabled: !context.live }), run),
    body, status, result);
  fill();
  show(level);
  status.textContent = context.live ? "edit, then Ctrl+Enter" : "edits need the live view: .widget()";
  const stop = context.bus.subscribe(root, (selection) => {
    if (level !== "source" || !selection?.lines?.length) return;
    const row = selection.lines[0] - data.first_line;
    if (row >= 0 && row < area.value.split("\n").length) area.scrollTop = numbers.scrollTop = Math.max(0, row * 18 - 60);
  });
  return { destroy: stop };
}

register("edit", mount, style);
