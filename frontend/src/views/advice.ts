// Advice: what limits a launch, with its numbers; a button tries an option where there is a kernel.
import { button, make, register, type Context } from "../core";
import style from "./advice.css";

interface Row { kind: string; text: string; evidence: string[]; gain: number | null; lines: number[]; options: string[] }
interface Payload { title: string; verdict: string; advice: Row[]; notes: string[] }
interface Said { type: string; advice: number; option: number; text?: string; error?: string; ratio?: number; agrees?: boolean }

function mount(root: HTMLElement, data: Payload, context: Context) {
  const status = make("div", { class: "tsr-foot", role: "status", "aria-live": "polite" }, ...data.notes.map((note) => make("span", {}, note)));
  const places = new Map<string, HTMLElement>();
  const buttons: HTMLButtonElement[] = [];
  const items = data.advice.map((row, number) => {
    const tries = row.options.map((option, n) => {
      const place = make("span", { class: "tsr-tried", "data-tried": `${number}.${n}` });
      places.set(`${number}.${n}`, place);
      if (!context.channel) return make("div", { class: "tsr-facts" }, "worth a try: ", make("code", {}, option));
      const press = button(`try ${option}`, `compile and measure the variant with ${option}`, () => {
        place.textContent = "waiting";
        buttons.forEach((each) => (each.disabled = true));
        context.channel!.send({ type: "try", advice: number, option: n });
      });
      buttons.push(press);
      return make("div", {}, press, place);
    });
    const gain = row.gain === null ? "gain not known" : `at most ${Math.round(100 * row.gain)}% of the time`;
    return make("li", { class: row.gain === null ? "" : "tsr-known" },
      make("h4", {}, `${number + 1}. ${row.kind}`, row.gain === null ? null : make("span", { class: "tsr-gainbar", "aria-hidden": "true" }, make("i", { style: `width:${Math.round(100 * row.gain)}%` })), make("span", { class: "tsr-soft" }, gain),
        row.lines.length ? button(`line ${row.lines[0]}`, `mark line ${row.lines[0]} in all views`, () => context.bus.select({ lines: row.lines, label: row.kind }, root)) : null),
      make("p", {}, row.text), make("div", { class: "tsr-facts" }, row.evidence.join("; ")), ...tries);
  });
  const stop = context.channel?.listen((said: Said) => {
    const place = places.get(`${said.advice}.${said.option}`);
    if (!place) return;
    place.className = "tsr-tried";
    if (said.type === "progress") place.textContent = said.text ?? "";
    if (said.type !== "tried") return;
    buttons.forEach((each) => (each.disabled = false));
    place.textContent = said.error ? `✗ ${said.error}` : `${(said.ratio ?? 1) < 0.98 ? "✓" : "="} ${said.text}`;
    place.classList.add(said.error || !said.agrees ? "tsr-m" : (said.ratio ?? 1) < 0.98 ? "tsr-p" : "tsr-soft");
    status.textContent = place.textContent;
  });
  root.append(
    make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, data.title)), make("div", { class: "tsr-verdict" }, data.verdict),
    make("ol", { class: "tsr-advice" }, ...items), status);
  return { destroy: () => stop?.() };
}

register("advice", mount, style);
