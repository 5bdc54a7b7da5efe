// The workbench: panels of one kernel in one or two columns, each a view of its own, all with one selection.
import { button, make, mount, register, type Channel, type Context, type View } from "../core";
import style from "./workbench.css";

interface Panel { name: string; kind: string; data: any; remark: string }
interface Payload { title: string; target: string; group: string; panels: Panel[] }

/** The channel of one panel, over that of the workbench. */
function channelOf(whole: Channel, panel: string): Channel {
  return {
    send: (message) => whole.send({ type: "panel", panel, message }),
    ask: async (message) => {
      const reply = await whole.ask({ type: "panel", panel, message });
      return reply.value ?? reply;
    },
    listen: (heard) => whole.listen((message) => message.panel === panel && heard(message.value)),
  };
}

function draw(root: HTMLElement, data: Payload, context: Context): View {
  const sides = [data.panels[0].name, data.panels.find((panel, i) => i && panel.kind)?.name ?? data.panels[0].name];
  const boxes = new Map<string, HTMLElement>();
  const views: Promise<View>[] = [];
  let split = 50;

  // A panel is drawn when it is first shown, and only moved afterwards: it keeps its state.
  const box = (panel: Panel): HTMLElement => {
    const known = boxes.get(panel.name);
    if (known) return known;
    const made = make("div", { class: "tsr-bench-view" });
    boxes.set(panel.name, made);
    if (!panel.kind) made.append(make("p", { class: "tsr-soft tsr-remark" }, panel.remark));
    else views.push(mount(made, panel.kind, { ...panel.data, group: data.group }, context.channel && channelOf(context.channel, panel.name)));
    return made;
  };
  const columns = [0, 1].map((side) => {
    const tabs = make("div", { class: "tsr-bar", role: "tablist", "aria-label": side ? "right panel" : "left panel", onkeydown: (event: KeyboardEvent) => along(event, side) });
    const hold = make("div", { class: "tsr-bench-panel", role: "tabpanel" });
    return { tabs, hold, node: make("section", { class: "tsr-bench-column", "aria-label": side ? "right" : "left" }, tabs, hold) };
  });
  const show = (side: number, name: string, focus = false): void => {
    if (sides[1 - side] === name) sides[1 - side] = sides[side]; // a view stands in one place: the two change places
    sides[side] = name;
    for (const [i, column] of columns.entries()) {
      column.hold.replaceChildren(box(data.panels.find((panel) => panel.name === sides[i])!));
      column.tabs.replaceChildren(...data.panels.map((panel) => make("button", { type: "button", role: "tab", "data-panel": panel.name, tabindex: panel.name === sides[i] ? 0 : -1,
        "aria-selected": String(panel.name === sides[i]), onclick: () => show(i, panel.name, true) }, panel.name)));
    }
    if (focus) columns[side].tabs.querySelector<HTMLElement>("[aria-selected=true]")?.focus({ preventScroll: true });
  };
  const along = (event: KeyboardEvent, side: number): void => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const names = data.panels.map((panel) => panel.name);
    show(side, names[(names.indexOf(sides[side]) + step + names.length) % names.length], true);
    event.preventDefault();
  };
  const body = make("div", { class: "tsr-bench" });
  const resize = (share: number): void => {
    split = Math.max(15, Math.min(85, share));
    body.style.setProperty("--split", `${split}%`);
    bar.setAttribute("aria-valuenow", String(Math.round(split)));
  };
  const bar = make("div", { class: "tsr-bench-split", role: "separator", tabindex: 0, "aria-orientation": "vertical", "aria-label": "width of the left panel", "aria-valuemin": 15, "aria-valuemax": 85,
    onkeydown: (event: KeyboardEvent) => {
      const step = { ArrowLeft: -3, ArrowRight: 3 }[event.key];
      if (step) { resize(split + step); event.preventDefault(); }
    },
    onpointerdown: (event: PointerEvent) => {
      bar.setPointerCapture(event.pointerId);
      const move = (moved: PointerEvent) => { const area = body.getBoundingClientRect(); resize((100 * (moved.clientX - area.left)) / area.width); };
      bar.addEventListener("pointermove", move);
      bar.addEventListener("pointerup", () => bar.removeEventListener("pointermove", move), { once: true });
    } });
  const one = button("one panel", "show one panel or two", () => {
    const alone = body.classList.toggle("tsr-alone");
    one.setAttribute("aria-pressed", String(alone));
  }, { "aria-pressed": "false" });
  const status = make("div", { class: "tsr-foot", role: "status", "aria-live": "polite" }, "select anything: its counterparts are marked in both panels");
  body.append(columns[0].node, bar, columns[1].node);
  root.append(make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, data.title), make("span", { class: "tsr-pill" }, data.target), make("span", { class: "tsr-grow" }), one), body, status);
  resize(split);
  show(0, sides[0]);
  const stop = context.bus.subscribe(root, (selection) => {
    status.textContent = selection?.label ? `selected: ${selection.label}` : selection ? "selected" : "nothing is selected";
  });
  return {
    destroy: () => {
      stop();
      for (const view of views) void view.then((each) => each.destroy?.());
    },
  };
}

register("workbench", draw, style);
