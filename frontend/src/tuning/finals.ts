// The rounds that decided: each finalist's time over the best one's, taken in turns, with the interval around its median.
import { make, plural } from "../core";
import type { Chart, Host } from "./charts";
import { micro, type Finalist } from "./model";

const FAR = 1.3; // times over the best one's from which on a finalist does not stretch the axis of the others

const times = (ratio: number): string => ratio.toFixed(3);

export function finals(host: Host): Chart {
  const { model } = host;
  const title = make("div", { class: "tsr-soft" }), list = make("div", { role: "list", "aria-label": "finalists" });
  const node = make("div", { class: "tsr-finals", hidden: true }, title, list);

  const row = (each: Finalist, low: number, high: number): HTMLElement => {
    const at = (ratio: number): string => `${Math.min(100, (100 * (ratio - low)) / (high - low)).toFixed(2)}%`;
    const best = each.row === model.head.best;
    const told = best ? micro(each.seconds) : `${times(each.ratio)} × the best (${times(each.low)} to ${times(each.high)}), wins ${each.wins} of ${each.rounds}`;
    return make("div", { role: "listitem", class: "tsr-finalist", "data-finalist": each.row, title: `${model.config(each.row)}: ${told}; median ${micro(each.seconds)}`, onclick: () => host.choose(each.row) },
      make("span", { class: "tsr-finalist-name" }, `${best ? "★ " : ""}${model.config(each.row)}${each.row === model.head.default ? ", the default" : ""}`),
      make("span", { class: "tsr-ratios", "aria-hidden": "true" },
        make("span", { class: "tsr-one", style: `left:${at(1)}` }),
        each.low <= high && make("span", { class: "tsr-interval", style: `left:${at(each.low)};right:calc(100% - ${at(each.high)})` }),
        make("span", { class: each.ratio > high ? "tsr-beyond" : "tsr-dot", style: `left:${at(each.ratio)}` }, each.ratio > high ? "▸" : "")),
      make("span", { class: "tsr-finalist-told" }, told));
  };
  const draw = (): void => {
    const found = model.head.finalists;
    node.hidden = found.length < 2;
    if (node.hidden) return;
    const near = found.filter((each) => each.high <= FAR), low = Math.min(...found.map((each) => each.low));
    const high = Math.max(...(near.length > 1 ? near : found).map((each) => each.high)), pad = Math.max(0.01, (high - low) * 0.06);
    title.textContent = `the final: ${plural(found.length, "configuration")} timed in turns, ${plural(found[0].rounds, "round")}; times over the best one's of the same round, medians with 95 % intervals`;
    list.replaceChildren(...found.map((each) => row(each, low - pad, high + pad)));
    mark();
  };
  const mark = (): void => {
    for (const each of list.children as HTMLCollectionOf<HTMLElement>) each.classList.toggle("tsr-on", Number(each.dataset.finalist) === host.chosen());
  };
  return { node, draw, mark, destroy: () => undefined };
}
