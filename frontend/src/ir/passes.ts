// The passes of one level as a row of buttons: what each changed, how long it took, how many counterparts it has.

import { make, roam } from "../core";
import type { Pane } from "./data";

const time = (seconds: number): string => (seconds >= 1 ? `${seconds.toFixed(2)} s` : seconds >= 1e-3 ? `${(seconds * 1e3).toFixed(1)} ms` : `${Math.round(seconds * 1e6)} µs`);

/** What a pass did, in words. */
export function passText(pane: Pane, first: boolean): string {
  const { counts, ran, stage } = pane.sent;
  const quiet = !counts.fresh && !counts.changed && !counts.gone;
  const options = Object.entries(ran?.options ?? {}).map(([name, value]) => `${name}=${value}`);
  const did = first ? "as built from the kernel" : quiet ? (ran?.changed ? "changed nothing that is printed" : "changed nothing") : counts.told;
  return [`${stage}: ${did}`, ran && time(ran.seconds), options.length && `options ${options.join(", ")}`].filter(Boolean).join("; ");
}

export interface PassBar {
  node: HTMLElement;
  /** Where the number of counterparts in each pass is written. */
  badges: Map<Pane, HTMLElement>;
}

/** A row of passes; `choose` hears which one was pressed, `tools` come at its end. */
export function passBar(panes: Pane[], chosen: Pane, choose: (pane: Pane) => void, tools: HTMLElement[]): PassBar {
  const badges = new Map<Pane, HTMLElement>();
  const bar = make("div", { class: "tsr-stages", role: "radiogroup", "aria-label": "after which pass", onkeydown: (event: KeyboardEvent) => roam(event, bar, "[role=radio]") });
  panes.forEach((pane, at) => {
    if (at) bar.append(make("span", { class: "tsr-then", "aria-hidden": "true" }, "›"));
    const { fresh, changed, gone } = pane.sent.counts;
    const deltas = make("span", { class: "tsr-delta" });
    for (const [count, sign, kind] of [[fresh, "+", "p"], [changed, "~", "c"], [gone, "−", "m"]] as const)
      if (count) deltas.append(make("i", { class: `tsr-${kind}` }, `${sign}${count}`));
    const quiet = at > 0 && !fresh && !changed && !gone;
    const badge = make("span");
    badges.set(pane, badge);
    const told = passText(pane, at === 0);
    bar.append(make("button", { type: "button", role: "radio", class: `tsr-stage${quiet ? " tsr-same" : ""}`, "aria-checked": String(pane === chosen),
      tabindex: pane === chosen ? 0 : -1, title: told, "aria-label": told, "data-pane": pane.index, onclick: () => choose(pane) },
      quiet ? "○ " : "", pane.sent.stage, deltas, pane.sent.ran ? make("span", { class: "tsr-ms" }, time(pane.sent.ran.seconds)) : null, badge));
  });
  bar.append(make("span", { class: "tsr-grow" }), ...tools);
  return { node: bar, badges };
}

/** Write a count beside a name; null: none. */
export function writeBadge(node: HTMLElement, count: number | null, kind = ""): void {
  node.className = count === null ? "" : `tsr-count${kind}${count ? "" : " tsr-none"}`;
  node.textContent = count === null ? "" : String(count);
}
