// The autotuning dashboard: a search as parallel coordinates, scatter, best so far and a table; steered while it runs.
import { button, make, mount as mountView, plural, propose, register, table, type Context, type View } from "../core";
import { curve, parallel, ramp, scatter, type Host } from "../tuning/charts";
import { finals } from "../tuning/finals";
import { Model, micro, type Delta, type Payload } from "../tuning/model";
import { trials } from "../tuning/table";
import style from "./dashboard.css";

const clock = (seconds: number): string => (seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.ceil(seconds / 60)} min`);

function mount(root: HTMLElement, data: Payload, context: Context): View {
  let view = build(root, data, context);
  return { themed: (dark) => view.themed?.(dark), destroy: () => view.destroy?.(), };

  function build(root: HTMLElement, data: Payload, context: Context): View {
    const model = new Model(data), channel = data.steered ? context.channel : null;
    let chosen: number | null = null, side = data.parameters[0]?.name ?? "trial", shown = 0;
    const host: Host = { root, model, chosen: () => chosen, choose: (row) => choose(row), brushed: () => brushed() };

    const state = make("span", { class: "tsr-pill tsr-state" });
    const bar = make("progress", { max: 1, value: 0, "aria-label": "configurations that had their turn" });
    const line = make("span", { class: "tsr-soft tsr-line" });
    const say = make("div", { class: "tsr-foot", role: "status", "aria-live": "polite" });
    const details = make("div", { class: "tsr-detail", hidden: true });
    const ask = async (message: Record<string, unknown>): Promise<any> => {
      const reply = await context.channel!.ask(message);
      if (reply.error) { say.textContent = reply.error; return null; }
      if (reply.result?.told) say.textContent = reply.result.told;
      return reply.result ?? null;
    };
    const pause = button("‖ pause", "begin no further launch", () => void ask({ type: data.head.state === "paused" ? "resume" : "pause" }), { "data-do": "pause" });
    const stop = button("■ stop", "end the search and keep the best", () => void ask({ type: "stop" }), { "data-do": "stop" });
    const field = make("input", { type: "text", size: 22, placeholder: data.parameters.map((each) => `${each.name}=${each.values[0]}`).join(" "), "aria-label": "a configuration to measure next, NAME=VALUE", oninput: () => refuse(""), onkeydown: (event) => {
      // Said here: JupyterLab keeps a form in an output from submitting by Enter.
      if (event.key !== "Enter") return;
      event.preventDefault();
      event.stopPropagation();
      void submit();
    } });
    const refused = make("div", { class: "tsr-refused", role: "alert", hidden: true });
    const refuse = (why: string): void => {
      refused.hidden = why === "";
      refused.textContent = why;
      if (why) field.setAttribute("aria-invalid", "true"); else field.removeAttribute("aria-invalid");
    };
    const submit = async (): Promise<void> => {
      const reply = await context.channel!.ask({ type: "add", text: field.value });
      refuse(reply.error ?? "");
      if (reply.error) return;
      field.value = "";
      if (reply.result?.told) say.textContent = reply.result.told;
    };
    const add = make("form", { class: "tsr-add", onsubmit: (event) => { event.preventDefault(); void submit(); } },
      make("div", {}, field, refused), make("button", { title: "measure this configuration next", "aria-label": "add this configuration", "data-do": "add" }, "+ add"));
    const pin = button("⚑ pin", "keep this configuration on top, and compare it with the best to the end", () => {
      if (chosen !== null) void ask({ type: "pin", row: chosen, on: !model.head.pins.includes(chosen) });
    }, { "data-do": "pin" });

    const choices: [string, string][] = [...data.parameters.map((each): [string, string] => [each.name, each.name]), ["predicted", "predicted time"], ["trial", "trial"]];
    const select = make("select", { "aria-label": "across", onchange: () => { side = select.value; points.draw(); } }, ...choices.map(([name, label]) => make("option", { value: name }, label)));
    const effects = make("div", { class: "tsr-effects" });
    const lines = parallel(host), points = scatter(host, () => side), steps = curve(host), verdict = finals(host), list = trials(host);
    const charts = [lines, points, steps, verdict];
    const heats = make("span", { class: "tsr-ramp", "aria-hidden": "true" }), heat = make("span", { class: "tsr-ramp-told tsr-soft", title: "the colour of a trial: its time over the fastest one's, logarithmic" }, "fastest", heats, "4 × and slower");
    const reset = button("show all", "take all filters back", () => { model.ranges.clear(); brushed(); });
    const counted = make("span", { class: "tsr-soft" });

    const pinned = (): void => {
      pin.disabled = chosen === null;
      pin.setAttribute("aria-pressed", String(chosen !== null && model.head.pins.includes(chosen)));
    };
    const head = (): void => {
      const { head } = model, running = head.state === "running" || head.state === "paused";
      state.textContent = { running: "▶ ", paused: "‖ ", finished: "✓ ", stopped: "■ ", interrupted: "■ ", failed: "✗ ", incomplete: "… " }[head.state] + head.state;
      bar.max = Math.max(1, head.total); bar.value = head.settled;
      const best = head.best >= 0 ? data.columns.seconds.data[head.best] : NaN, own = head.default >= 0 ? data.columns.seconds.data[head.default] : NaN;
      line.textContent = [`${head.settled} of ${plural(head.total, "configuration")}`,
        running && head.left !== null ? `about ${clock(head.left)} left` : null, head.seconds !== null ? `${head.seconds.toFixed(1)} s so far` : null,
        best > 0 ? `best ${model.config(head.best)}: ${micro(best)}` : null, best > 0 && own > 0 && head.best !== head.default ? `${(own / best).toFixed(2)} × as fast as the default` : null,
        head.phase && head.phase !== head.state ? head.phase : null, head.told || null].filter(Boolean).join("; ");
      pause.textContent = head.state === "paused" ? "▶ resume" : "‖ pause";
      pause.title = pause.ariaLabel = head.state === "paused" ? "go on" : "begin no further launch";
      pause.disabled = stop.disabled = !running;
      pinned();
      const rest = head.full ? 1 - head.effects.reduce((sum, each) => sum + each.share, 0) : null;
      effects.replaceChildren(...(head.effects.length ? [make("span", { class: "tsr-soft", title: "main effects on the logarithm of the time; the rest are interactions and noise" }, head.full ? "explains of the variance:" : "explains alone, on the part of the grid that was measured:")] : []),
        ...head.effects.map((each) => make("span", { class: "tsr-effect" }, make("b", {}, each.name), make("span", { class: "tsr-share", "aria-hidden": "true" }, make("span", { style: `width:${(100 * each.share).toFixed(0)}%` })), `${(100 * each.share).toFixed(0)} %, best ${each.best}`)),
        rest !== null && head.effects.length ? `rest ${(100 * Math.max(0, rest)).toFixed(0)} %` : "");
    };
    const draw = (): void => { heats.style.background = `linear-gradient(to right, ${ramp(root, 0)}, ${ramp(root, 1)})`; for (const chart of charts) chart.draw(); list.draw(); head(); counts(); };
    const counts = (): void => {
      const kept = model.inside.reduce((sum, each) => sum + each, 0);
      counted.textContent = kept === model.size ? plural(kept, "trial") : `${kept.toLocaleString("en")} of ${plural(model.size, "trial")} in the filters`;
      reset.disabled = kept === model.size;
    };
    const brushed = (): void => { model.refresh(); draw(); };
    const choose = (row: number | null, tell = true): void => {
      chosen = row;
      // Canvases first: they read styles, which is free as long as nothing has changed.
      for (const chart of charts) chart.mark();
      list.mark();
      pinned();
      say.textContent = row === null ? summary() : model.told(row);
      details.hidden = true;
      if (tell) context.bus.select(row === null ? null : { configs: [model.key(row)], label: model.config(row) }, root);
      if (row !== null && context.channel) void look(row);
    };
    const use = async (row: number): Promise<void> => {
      const found = await ask({ type: "use", row });
      if (found) say.textContent = `${await propose(found.code, root)}: ${found.code}`;
    };
    const look = async (row: number): Promise<void> => {
      const asked = ++shown;
      const found = await context.channel!.ask({ type: "detail", row });
      if (asked !== shown || !root.isConnected) return;
      const result = found.result ?? { rows: [], error: found.error };
      const differs = (result.rows as [string, string, string][]).map(([name, own, best]) => [name, own, best, own === best ? "" : "≠"]);
      details.replaceChildren(result.error ? make("div", {}, result.error) : table(["its code needs", "this one", "the best", ""], differs, [1, 2], `${model.config(row)} beside ${model.head.best >= 0 ? model.config(model.head.best) : "no other"}`));
      const asks = make("div", { class: "tsr-asks" }, button("✎ use this", "write this configuration into a cell below", () => void use(row), { "data-do": "use" }));
      details.prepend(asks);
      if (!result.error && model.head.best >= 0) {
        const place = make("div");
        const embed = (type: string) => async (): Promise<void> => {
          place.replaceChildren(make("div", { class: "tsr-soft" }, type === "diff" ? "comparing …" : "profiling both …"));
          const made = await context.channel!.ask({ type, row });
          if (!place.isConnected) return;
          place.replaceChildren(made.error ? make("div", {}, made.error) : "");
          for (const view of made.result?.views ?? []) {
            const inner = make("div");
            place.append(make("div", { class: "tsr-soft" }, view.title), inner);
            void mountView(inner, view.kind, view.payload, null);
          }
        };
        asks.append(
          ...(row !== model.head.best ? [button("≠ diff with the best", "show what the compiler made differently than for the best", embed("diff"), { "data-do": "diff" })] : []),
          button("◷ profile beside the best", "run this configuration and the best one once more, and show their timelines", embed("profile"), { "data-do": "profile" }));
        details.append(place);
      }
      details.hidden = false;
    };
    const summary = (): string => data.notes.join("; ") || "click a trial, or walk with the arrow keys; drag along an axis to filter";
    const walk = (event: KeyboardEvent): void => {
      if ((event.target as HTMLElement).closest("input, select, button, summary")) return;
      const at = chosen === null ? -1 : model.rows.indexOf(chosen), last = model.rows.length - 1;
      const to = { ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, PageDown: at + 15, PageUp: at - 15, Home: 0, End: last }[event.key];
      if (event.key === "Escape" && chosen !== null) choose(null);
      else if (to !== undefined && last >= 0) choose(model.rows[Math.max(0, Math.min(last, to))]);
      else if (event.key === "p" && chosen !== null && channel) pin.click();
      else return;
      event.preventDefault();
    };

    const area = make("div", { class: "tsr-tuning", onkeydown: walk },
      make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, data.title), state, bar, make("span", { class: "tsr-grow" }), ...(channel ? [pause, stop, pin, add] : [])),
      make("div", { class: "tsr-bar" }, line, make("span", { class: "tsr-grow" }), heat), verdict.node, lines.node,
      make("div", { class: "tsr-pair" },
        make("div", {}, make("label", { class: "tsr-soft tsr-side" }, "time by ", select), points.node),
        make("div", {}, make("div", { class: "tsr-soft tsr-side" }, "best so far"), steps.node)),
      make("div", { class: "tsr-bar" }, effects), make("div", { class: "tsr-bar" }, counted, reset, make("span", { class: "tsr-soft" }, "sorted by a click on a column; ↑ ↓ walk")),
      list.node, say, details);
    root.append(area);
    say.textContent = summary();

    const off = context.bus.subscribe(root, (selection) => {
      const wanted = selection?.configs?.[0];
      if (wanted === undefined) return; // lines, tiles and the like say nothing of configurations
      let found: number | null = null;
      for (let row = 0; row < model.size && found === null; row++) if (model.key(row) === wanted) found = row;
      choose(found, false);
      if (found === null) say.textContent = "no counterpart in this search";
    });
    let frame = 0;
    const apply = (delta: Delta): void => {
      model.apply(delta);
      frame ||= requestAnimationFrame(() => { frame = 0; draw(); });
    };
    const since = async (): Promise<void> => { const found = await ask({ type: "since", version: data.version }); if (found) heard(found); };
    const heard = (message: any): void => {
      if (message.type === "anew") void ask({ type: "snapshot" }).then(anew);
      else if (message.type !== "delta") return;
      else if (message.from > data.version) void since();
      else if (message.to >= data.version) apply(message);
    };
    const anew = (fresh: Payload | null): void => {
      if (!fresh || !area.isConnected) return;
      const key = chosen === null ? null : model.key(chosen);
      const focused = area.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset.do : undefined;
      made.destroy!();
      area.remove();
      view = build(root, fresh, context);
      if (key !== null) context.bus.select({ configs: [key] }, {});
      if (focused) root.querySelector<HTMLElement>(`[data-do="${focused}"]`)?.focus();
    };
    const deaf = channel?.listen(heard);
    if (channel) void since();
    draw();
    const made: View = { themed: draw, destroy: () => { off(); deaf?.(); cancelAnimationFrame(frame); for (const chart of charts) chart.destroy(); list.destroy(); } };
    return made;
  }
}

register("dashboard", mount, style);
