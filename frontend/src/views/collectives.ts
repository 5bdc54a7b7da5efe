// The collectives view: a list of those that were inserted; of the one chosen, the mesh with its shards before and after.
import { make, mount, plural, register, roam, type Context, type View } from "../core";
import style from "./collectives.css";

interface Item { head: string; before: string; after: string; sent: string; time: string; basis: string; line: number; why: string; pictures: (Record<string, unknown> | null)[] }
interface Payload { title: string; mesh: string; collectives: Item[] }

function draw(root: HTMLElement, data: Payload, context: Context): View {
  const shown = make("section", { class: "tsr-collective-shown", "aria-live": "polite", "aria-label": "before and after" });
  const status = make("div", { class: "tsr-foot", role: "status" });
  let views: Promise<View>[] = [];
  const close = (): void => {
    for (const view of views) void view.then((each) => each.destroy?.());
    views = [];
  };
  const buttons = data.collectives.map((each, number) => make("button", { type: "button", role: "option", class: "tsr-collective", tabindex: number ? -1 : 0, "aria-selected": "false", onclick: () => choose(number, true) },
    make("b", {}, each.head), make("span", {}, `${each.sent} a device, ${each.time}`), make("span", { class: "tsr-soft" }, `${each.before} → ${each.after}`)));
  const choose = (number: number, focus = false): void => {
    const each = data.collectives[number];
    close();
    buttons.forEach((other, i) => {
      other.setAttribute("aria-selected", String(i === number));
      other.tabIndex = i === number ? 0 : -1;
    });
    const parts = ["before", "after"].map((name, i) => {
      const hold = make("div", {}), picture = each.pictures[i];
      if (picture) views.push(mount(hold, "mesh", picture, null));
      else hold.append(make("p", { class: "tsr-soft" }, "shown in words: only the first collectives have pictures, and blocks alone can be drawn"));
      return make("div", {}, make("h4", {}, `${name}: `, make("code", {}, i ? each.after : each.before)), hold);
    });
    shown.replaceChildren(...parts);
    status.replaceChildren(make("b", {}, each.head), make("span", {}, `${each.why}${each.line ? `, line ${each.line}` : ""}; ${each.sent} sent by each device; ${each.time}: ${each.basis}`));
    if (each.line) context.bus.select({ lines: [each.line], label: each.head }, root);
    if (focus) buttons[number].focus();
  };
  const list = make("div", { class: "tsr-collective-list", role: "listbox", "aria-label": "collectives" }, ...buttons);
  list.addEventListener("keydown", (event) => roam(event, list, ".tsr-collective"));
  root.append(make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, data.title), make("span", { class: "tsr-pill" }, plural(data.collectives.length, "collective")), make("span", { class: "tsr-soft" }, data.mesh)),
    buttons.length ? make("div", { class: "tsr-collectives" }, list, shown) : make("p", { class: "tsr-soft", style: "padding:6px 12px" }, "nothing moves between devices"), status);
  const stop = context.bus.subscribe(root, (selection) => {
    const lines = new Set(selection?.lines ?? []);
    const found = data.collectives.findIndex((each) => lines.has(each.line));
    if (found >= 0) choose(found);
  });
  if (buttons.length) choose(0);
  return { destroy: () => (stop(), close()), themed: (dark) => views.forEach((view) => void view.then((each) => each.themed?.(dark))) };
}

register("collectives", draw, style);
