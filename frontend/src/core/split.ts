// A line between two panes that moves: dragged, or with the arrow keys.

import { make } from "./dom";

const STEP = 32;
const LEAST = 120;

/** A separator right of `pane`, whose width it sets; `resized` hears the width in pixels. */
export function separator(pane: HTMLElement, label: string, resized?: (width: number) => void): HTMLElement {
  const node = make("div", { class: "tsr-split", role: "separator", tabindex: 0, "aria-orientation": "vertical",
    "aria-label": label, "aria-valuemin": LEAST, title: `${label}: drag, or ← and →` });
  const set = (width: number): void => {
    const now = Math.round(Math.max(LEAST, width));
    pane.style.flex = `0 0 ${now}px`;
    node.setAttribute("aria-valuenow", String(now));
    resized?.(now);
  };
  const width = (): number => pane.getBoundingClientRect().width;
  node.addEventListener("pointerdown", (down: PointerEvent) => {
    const [from, begin] = [down.clientX, width()];
    const move = (event: PointerEvent): void => set(begin + event.clientX - from);
    node.setPointerCapture(down.pointerId);
    node.addEventListener("pointermove", move);
    node.addEventListener("pointerup", () => node.removeEventListener("pointermove", move), { once: true });
    node.addEventListener("pointercancel", () => node.removeEventListener("pointermove", move), { once: true });
    down.preventDefault();
    node.focus({ preventScroll: true });
  });
  node.addEventListener("keydown", (event: KeyboardEvent) => {
    const by = { ArrowLeft: -STEP, ArrowRight: STEP, Home: -1e9, End: STEP * 8 }[event.key];
    if (by === undefined) return;
    set(width() + by);
    event.preventDefault();
  });
  requestAnimationFrame(() => node.setAttribute("aria-valuenow", String(Math.round(width()))));
  return node;
}
