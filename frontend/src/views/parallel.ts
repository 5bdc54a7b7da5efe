// The view of a search for a plan: plans side by side, time and memory as bars; why others were rejected; a timeline.
import { make, mount, PALETTE, plural, register, roam, table, type Context, type View } from "../core";
import style from "./parallel.css";

interface Plan { name: string; pipeline: string; seconds: number; bubble: number; rate: number; bytes_per_device: number; capacity: number; time: [string, number][]; memory: [string, number][]; collectives: string[]; facts: string[] }
interface Payload { title: string; plans: Plan[]; rejected: { name: string; reason: string; fits: boolean }[]; left: number; notes: string[]; timeline: Record<string, unknown> | null }

const time = (seconds: number): string => {
  for (const [unit, size] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]] as [string, number][]) if (seconds >= size) return `${Number((seconds / size).toPrecision(3))} ${unit}`;
  return `${Number((seconds * 1e9).toPrecision(3))} ns`;
};
const gib = (bytes: number): string => (bytes >= 2 ** 30 ? `${(bytes / 2 ** 30).toFixed(1)} GiB` : `${(bytes / 2 ** 20).toFixed(1)} MiB`);

function draw(root: HTMLElement, data: Payload, _context: Context): View {
  const names = (kind: "time" | "memory"): string[] => [...new Set(data.plans.flatMap((plan) => plan[kind].map(([name]) => name)))];
  const kinds = { time: names("time"), memory: names("memory") };
  const hue = (kind: "time" | "memory", name: string): string => PALETTE[kinds[kind].indexOf(name) % PALETTE.length];
  const bar = (plan: Plan, kind: "time" | "memory", whole: number, show: (value: number) => string): HTMLElement => {
    const said = plan[kind].map(([name, value]) => `${name} ${show(value)}`).join(", ");
    return make("span", { class: "tsr-plan-bar", role: "img", "aria-label": said, title: said }, ...plan[kind].map(([name, value]) => make("i", { style: `width:${(100 * value) / whole}%;background:${hue(kind, name)}` })));
  };
  const slowest = Math.max(...data.plans.map((plan) => plan.seconds));
  const facts = make("ul", { class: "tsr-plan-facts", "aria-live": "polite" });
  const rows = data.plans.map((plan, number) => make("button", { type: "button", role: "option", class: "tsr-plan", tabindex: number ? -1 : 0, "aria-selected": "false", onclick: () => choose(number, true) },
    make("b", {}, plan.name), make("span", {}, time(plan.seconds)), make("span", {}, `${(100 * plan.bubble).toFixed(1)} %`), bar(plan, "time", slowest, time), bar(plan, "memory", Math.max(plan.capacity, plan.bytes_per_device), gib)));
  const choose = (number: number, focus = false): void => {
    rows.forEach((row, i) => {
      row.setAttribute("aria-selected", String(i === number));
      row.tabIndex = i === number ? 0 : -1;
    });
    const plan = data.plans[number];
    const told = [plan.pipeline, ...plan.facts, `a step: ${plan.time.map(([name, value]) => `${name} ${time(value)}`).join(", ")}`, `memory: ${gib(plan.bytes_per_device)} of ${gib(plan.capacity)}: ${plan.memory.map(([name, value]) => `${name} ${gib(value)}`).join(", ")}`,
      `${(plan.rate / 1e12).toLocaleString("en", { maximumFractionDigits: 0 })} TFLOP/s a device`, ...plan.collectives];
    facts.replaceChildren(...told.map((each) => make("li", {}, each)));
    if (focus) rows[number].focus();
  };
  const list = make("div", { role: "listbox", "aria-label": "plans, the fastest first" }, ...rows);
  list.addEventListener("keydown", (event) => roam(event, list, ".tsr-plan"));
  const keys = (kind: "time" | "memory"): HTMLElement => make("span", {}, ...kinds[kind].map((name) => make("span", { class: "tsr-plan-key" }, make("i", { style: `background:${hue(kind, name)}` }), name)));
  const why = data.rejected.map((each) => [each.name, each.fits ? "slower" : "impossible", each.reason]);
  const hold = make("div", {});
  const view = data.timeline ? mount(hold, "devices", data.timeline, null) : null;
  root.append(
    make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, data.title), make("span", { class: "tsr-pill" }, `best: ${data.plans[0].name}, ${time(data.plans[0].seconds)}`)),
    make("div", { class: "tsr-plans" }, make("div", { class: "tsr-plan tsr-plan-head" }, make("span", {}, "plan"), make("span", {}, "a step"), make("span", {}, "bubble"), make("span", {}, "time"), make("span", {}, "memory of a device")), list,
      make("div", { class: "tsr-soft" }, "time: ", keys("time")), make("div", { class: "tsr-soft" }, "memory: ", keys("memory"))),
    facts,
    make("details", {}, make("summary", {}, `rejected: ${plural(data.rejected.length + data.left, "way")}, with the reason`), make("div", { class: "tsr-scroll", tabindex: 0 }, table(["plan", "", "why not"], why), data.left ? make("div", { class: "tsr-soft" }, `and ${data.left} more`) : null)),
    make("details", {}, make("summary", {}, "what the times leave out"), make("ul", {}, ...data.notes.map((note) => make("li", {}, note)))),
    hold);
  choose(0);
  return { destroy: () => void view?.then((each) => each.destroy?.()), themed: (dark) => void view?.then((each) => each.themed?.(dark)) };
}

register("parallel", draw, style);
