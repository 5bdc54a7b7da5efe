// Elements, texts and small tools that every view uses.

type Attributes = Record<string, string | number | boolean | null | undefined | ((event: any) => void)>;
export type Child = Node | string | null | undefined | false;

/** Make an element: attributes by name, `onclick` and the like are listeners, `true` is an empty attribute. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  apply(node, attributes, children);
  return node;
}

/** Make an element of SVG.  A picture keeps the size it is given: notebooks size those in outputs themselves. */
export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  apply(node, attributes, children);
  const { width, height } = attributes;
  if (tag === "svg" && height) node.style.cssText += `;width:${width}px;height:${height}px;max-width:none`;
  return node;
}

function apply(node: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child): child is Node | string => child !== null && child !== undefined && child !== false));
}

const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
export const escape = (text: string): string => text.replace(/[&<>"]/g, (c) => ENTITIES[c]);

export const plural = (count: number, word: string): string => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

/** A button with a name for those who do not see its sign. */
export function button(label: string, title: string, press: () => void, attributes: Attributes = {}): HTMLButtonElement {
  // A sign alone has no name; words name the button themselves, and the title describes it.
  const named = /\p{L}{2}/u.test(label) ? null : title;
  return make("button", { type: "button", title, "aria-label": named, onclick: press, ...attributes }, label);
}

/** Put a tooltip beside the pointer: a notebook's panel may contain what is `fixed`, and its corner is not the window's. */
export function beside(tip: HTMLElement, event: PointerEvent): void {
  Object.assign(tip.style, { left: "0", top: "0" });
  const corner = tip.getBoundingClientRect();
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - corner.width - 8) - corner.left}px`;
  tip.style.top = `${event.clientY + 16 - corner.top}px`;
}

/** Write code into a cell below the one that shows `node`, where JupyterLab has Tessera's extension; copy it elsewhere. */
export async function propose(code: string, node: HTMLElement): Promise<"inserted" | "copied"> {
  const proposal = { code, inserted: false };
  node.dispatchEvent(new CustomEvent("tessera:insert", { bubbles: true, composed: true, detail: proposal }));
  if (proposal.inserted) return "inserted";
  await copy(code, node);
  return "copied";
}

/** Copy a text; pages that are not served over https have no clipboard, so the old command helps out. */
export async function copy(text: string, near: HTMLElement): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea", { style: "position:fixed;opacity:0", "aria-hidden": "true" });
    area.value = text;
    near.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

/** Offer a text or bytes as a file. */
export function download(name: string, content: string | Uint8Array<ArrayBuffer>, type = "text/plain"): void {
  const link = make("a", { href: URL.createObjectURL(new Blob([content], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A table; `numeric` columns are set right.  The text form of every canvas. */
export function table(head: string[], rows: Child[][], numeric: number[] = [], caption = ""): HTMLTableElement {
  const cell = (tag: "th" | "td", child: Child, column: number, scope?: string) =>
    make(tag, { class: numeric.includes(column) ? "tsr-num" : null, scope }, child);
  return make(
    "table",
    { class: "tsr-table" },
    caption ? make("caption", {}, caption) : null,
    make("thead", {}, make("tr", {}, ...head.map((name, i) => (name ? cell("th", name, i, "col") : cell("td", "", i))))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((child, i) => cell("td", child, i))))),
  );
}

/** Arrow keys among the buttons of a group, as WAI-ARIA asks: the next one is pressed. */
export function roam(event: KeyboardEvent, group: HTMLElement, what: string): void {
  const buttons = [...group.querySelectorAll<HTMLElement>(what)];
  const at = buttons.indexOf((event.target as HTMLElement).closest<HTMLElement>(what)!);
  const to = ({ ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 } as Record<string, number>)[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  buttons[(to + buttons.length) % buttons.length].click();
}
