// Elements of tooltips, and what the service tells of a word.
import type { Told } from "./link";

export function element(tag: string, name: string, text = ""): HTMLElement {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text) made.textContent = text;
  return made;
}

export function told({ code, text }: Told): HTMLElement {
  const box = element("div", "tsr-cell-tip-told");
  if (code) box.append(element("div", "tsr-cell-tip-code", code));
  if (text) box.append(element("div", "tsr-cell-tip-text", text));
  return box;
}
