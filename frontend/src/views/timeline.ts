// The timeline: what each unit did when, as measured and as predicted.
import { button, make, register, table, PALETTE, type Context } from "../core";
import { Lanes } from "../profile/lanes";
import { time, type Launch } from "../profile/types";
import style from "./timeline.css";

interface Payload {
  title: string;
  text: string;
  launches: Launch[];
}

const PHASES: Record<string, string> = { load: PALETTE[1], compute: PALETTE[2], store: PALETTE[3] };

function mount(root: HTMLElement, data: Payload, context: Context) {
  let lanes: Lanes | null = null;
  const status = make("div", { class: "tsr-foot", role: "status", "aria-live": "polite" });
  const body = make("div");
  const say = (text: string): void => void (status.textContent = text || data.text);
  const key = (name: string, hue: string): HTMLElement => make("span", { class: "tsr-key" }, make("i", hue ? { style: `--hue:${hue}` } : { class: "tsr-outline" }), name);

  const show = (number: number): void => {
    lanes?.destroy();
    const launch = data.launches[number];
    const shown = (lanes = new Lanes(root, launch, context, say));
    const predicted = button("predicted", "show the predicted tiles below the measured ones", () => {
      shown.showPredicted = !shown.showPredicted;
      predicted.setAttribute("aria-pressed", String(shown.showPredicted));
      shown.redraw();
    }, { "aria-pressed": String(launch.predicted !== null) });
    const phases = Object.keys(launch.measured?.phases ?? {});
    const told = [
      launch.told,
      launch.predicted ? `tiles predicted ${time(launch.predicted_span)}` : "",
      launch.measured && launch.predicted && launch.predicted_span ? `measured ${(launch.span / launch.predicted_span).toPrecision(2)} times that` : "",
    ].filter(Boolean);
    const words = "recorded: from the start of the first tile to the end of the last one; median: of launches of the kernel that writes no records";
    body.replaceChildren(
      make("div", { class: "tsr-bar" },
        button("−", "zoom out (-)", () => shown.zoom(2)), button("+", "zoom in (+)", () => shown.zoom(0.5)), button("fit", "fit all (0)", () => shown.fit()),
        launch.measured && launch.predicted ? predicted : null,
        launch.measured ? key("measured", "#3f9fd8") : null, launch.predicted ? key("predicted", "") : null, ...phases.map((name) => key(name, PHASES[name] ?? PALETTE[4])),
        make("span", { class: "tsr-grow" }), make("span", { class: "tsr-soft", title: launch.told && words }, told.join(" · "))),
      make("div", { class: "tsr-lanesbox" }, shown.canvas, shown.tip),
      ...launch.remarks.map((remark) => make("div", { class: "tsr-key", style: "padding:0 10px" }, remark)),
      make("details", { open: false }, make("summary", {}, "figures"), make("div", { class: "tsr-scroll tsr-figures", tabindex: 0 }, table(["figure", "value"], launch.figures))),
      make("details", {}, make("summary", {}, "as a table"), make("div", { class: "tsr-scroll", tabindex: 0 },
        table([launch.unit, "tiles", "busy", "predicted tiles"], launch.table, [1, 2, 3]),
        launch.slowest.length ? table(["slowest tiles", "on", "from", "took"], launch.slowest.map((each) => [String(each.tile), each.row, time(each.start), time(each.duration)]), [0, 2, 3]) : null)),
    );
    say("");
    shown.redraw();
  };
  const launches = make("select", { "aria-label": "launch", onchange: (event: Event) => show(Number((event.target as HTMLSelectElement).value)) },
    ...data.launches.map((each, n) => make("option", { value: n }, `phase ${n + 1} of ${data.launches.length}: ${each.title}`)));
  root.append(
    make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, data.title), make("span", { class: "tsr-grow" }), data.launches.length > 1 ? launches : null,
      make("span", { class: "tsr-soft" }, make("kbd", {}, "+"), " ", make("kbd", {}, "−"), " zoom, ", make("kbd", {}, "←"), " ", make("kbd", {}, "→"), " move, ", make("kbd", {}, "n"), " ", make("kbd", {}, "p"), " tiles, ", make("kbd", {}, "s"), " selects the time shown")),
    body, status);
  if (data.launches.length) show(0);
  const stop = context.bus.subscribe(root, (selection) => say(lanes?.mark(selection) ?? ""));
  return { themed: () => lanes?.redraw(), destroy: () => (stop(), lanes?.destroy()) };
}

register("timeline", mount, style);
