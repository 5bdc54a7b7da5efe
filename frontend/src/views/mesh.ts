// The mesh view: enclosures as boxes, devices as tiles coloured by the block they hold, transfers of the one chosen.
import { colour, make, plural, register, svg, table, PALETTE, type Context } from "../core";
import style from "./mesh.css";

interface Payload {
  title: string;
  text: string;
  mesh: { name: string; link: string; axes: { name: string; size: number }[]; devices: { number: number; place: number[]; enclosure: string }[] };
  array: { name: string; shape: number[]; spec: string[][]; shards: { device: number; start: number[]; stop: number[] }[]; replicas: number } | null;
  bytes: number[];
  transfers: { source: number; destination: number; size: number }[];
}

const size = (bytes: number): string => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) (bytes /= 1024), unit++;
  return `${bytes.toLocaleString("en", { maximumFractionDigits: 1 })} ${units[unit]}`;
};

function mount(root: HTMLElement, data: Payload, context: Context) {
  const { mesh, array } = data;
  const block = (device: number): string => {
    const shard = array?.shards[device];
    return shard ? `[${shard.start.map((from, i) => `${from}:${shard.stop[i]}`).join(", ")}]` : "";
  };
  const names = [...new Set(array ? mesh.devices.map((each) => block(each.number)) : [])];
  const hue = (device: number): string => (array ? PALETTE[names.indexOf(block(device)) % PALETTE.length] : "var(--edge)");
  const tiles = new Map<number, HTMLElement>();
  let chosen: number | null = null;
  let axis: number | null = null;

  const starts = array?.shape.map((_, d) => [...new Set(array.shards.map((shard) => shard.start[d]))].sort((a, b) => a - b)) ?? [];
  /** A block in few words: its number along each dimension, or a colon where that is whole, as in NumPy. */
  const short = (device: number): string => {
    const shard = array?.shards[device];
    if (!shard) return mesh.devices[device].place.join(",");
    if (shard.start.some((from, i) => from >= shard.stop[i])) return "∅";
    return shard.start.map((from, i) => (from === 0 && shard.stop[i] === array!.shape[i] ? ":" : starts[i].indexOf(from))).join(",");
  };

  const status = make("div", { class: "tsr-foot", role: "status", "aria-live": "polite" });
  const place = (device: number): string => mesh.axes.map((each, i) => `${each.name} ${mesh.devices[device].place[i]}`).join(", ");

  const mark = (): void => {
    for (const [number, tile] of tiles) {
      const same = chosen !== null && array !== null && block(number) === block(chosen);
      const along = chosen !== null && axis !== null && mesh.axes.every((_, i) => i === axis || mesh.devices[number].place[i] === mesh.devices[chosen!].place[i]);
      tile.classList.toggle("tsr-on", same || along);
      tile.setAttribute("aria-selected", String(number === chosen));
      const sends = data.transfers.find((each) => each.source === chosen && each.destination === number);
      const gets = data.transfers.find((each) => each.destination === chosen && each.source === number);
      tile.querySelector(".tsr-moves")!.textContent = [gets && `⇠ ${size(gets.size)}`, sends && `⇢ ${size(sends.size)}`].filter(Boolean).join(" ");
    }
    status.textContent = chosen === null ? data.text : told(chosen);
    for (const [name, rect] of pictured) rect.classList.toggle("tsr-on", chosen !== null && name === block(chosen));
    paint();
  };
  const told = (device: number): string => {
    const parts = [`device ${device} (${place(device)}), ${mesh.devices[device].enclosure}`];
    if (array) {
      const holders = mesh.devices.filter((each) => block(each.number) === block(device)).length;
      parts.push(`holds ${array.name}${block(device)}, ${size(data.bytes[device])}`, `${plural(holders, "device")} hold${holders === 1 ? "s" : ""} this block`);
    }
    const total = (all: Payload["transfers"]): number => all.reduce((sum, each) => sum + each.size, 0);
    if (data.transfers.length) {
      const [out, into] = [data.transfers.filter((each) => each.source === device), data.transfers.filter((each) => each.destination === device)];
      parts.push(`sends ${size(total(out))} to ${plural(out.length, "device")}`, `gets ${size(total(into))} from ${plural(into.length, "device")}`);
    }
    return parts.join("; ");
  };
  const choose = (device: number | null): void => {
    chosen = device;
    const shard = device === null ? null : array?.shards[device];
    context.bus.select(shard ? { elements: [{ array: array!.name, place: shard.start }], label: block(device!) } : null, root);
    mark();
  };
  const step = (event: KeyboardEvent): void => {
    const at = chosen ?? 0;
    const columns = Math.max(1, mesh.axes.at(-1)!.size);
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -1e9, End: 1e9 }[event.key];
    if (event.key === "Escape" && chosen !== null) choose(null);
    else if (by !== undefined) {
      choose(Math.max(0, Math.min(mesh.devices.length - 1, at + by)));
      tiles.get(chosen!)!.focus();
    } else return;
    event.preventDefault();
  };

  // The array, cut into its blocks: the last two dimensions as a rectangle, those in front as rows of rectangles.
  const pictured = new Map<string, SVGRectElement>();
  const picture = (): HTMLElement | null => {
    if (!array || !array.shape.length || array.shape.some((extent) => extent === 0)) return null;
    const rank = array.shape.length, [high, wide] = rank > 1 ? array.shape.slice(-2) : [1, array.shape[0]];
    const outer = array.shape.slice(0, -2), side = 150;
    const scale = [Math.min(side, Math.max(14, (side * high) / Math.max(high, wide))), Math.min(side, Math.max(14, (side * wide) / Math.max(high, wide)))];
    // Blocks of the dimensions in front, each pair of which is one rectangle.
    const cuts = outer.map((_, d) => [...new Set(array.shards.filter((shard) => shard.start[d] < shard.stop[d]).map((shard) => shard.start[d]))].sort((a, b) => a - b));
    const columns = cuts.at(-1)?.length ?? 1, rows = cuts.slice(0, -1).reduce((product, cut) => product * cut.length, 1);
    const gap = 12, small = Math.max(0.25, Math.min(1, 460 / ((scale[1] + gap) * columns), 300 / ((scale[0] + gap) * rows)));
    const [h, w] = [scale[0] * small, scale[1] * small];
    const drawing = svg("svg", { width: (w + gap) * columns + 4, height: (h + gap) * rows + 4, role: "img", "aria-label": `${array.name} cut into ${plural(names.length, "block")}` });
    for (const shard of array.shards) {
      const name = block(shard.device);
      if (pictured.has(name) || shard.start.some((from, i) => from >= shard.stop[i])) continue;
      const column = outer.length ? cuts.at(-1)!.indexOf(shard.start[outer.length - 1]) : 0;
      const row = cuts.slice(0, -1).reduce((sum, cut, d) => sum * cut.length + cut.indexOf(shard.start[d]), 0);
      const [y0, y1] = rank > 1 ? [shard.start[rank - 2], shard.stop[rank - 2]] : [0, 1], [x0, x1] = [shard.start[rank - 1], shard.stop[rank - 1]];
      const rect = svg("rect", { x: 2 + column * (w + gap) + (x0 / wide) * w, y: 2 + row * (h + gap) + (y0 / high) * h, width: Math.max(1, ((x1 - x0) / wide) * w), height: Math.max(1, ((y1 - y0) / high) * h),
        fill: PALETTE[names.indexOf(name) % PALETTE.length], class: "tsr-piece", onclick: () => choose(shard.device) }, svg("title", {}, `${name}: ${plural(mesh.devices.filter((each) => block(each.number) === name).length, "device")}`));
      pictured.set(name, rect);
      drawing.append(rect);
    }
    const dimensions = array.shape.map((extent, d) => `${extent}${array.spec[d].length ? ` over ${array.spec[d].join("·")}` : ""}`).join(" × ");
    return make("figure", { class: "tsr-mesh-array" }, make("figcaption", {}, `${array.name}: ${dimensions}${rank > 2 ? "; a rectangle is the last two dimensions" : ""}`), drawing);
  };

  // Bytes from each device to each: a matrix, darker for more, with the pair under the pointer in words.
  const matrix = make("canvas", { class: "tsr-matrix", role: "img", "aria-label": "bytes from each device (row) to each device (column); the table below has the numbers" });
  const hint = make("div", { class: "tsr-soft tsr-matrix-hint" });
  const cell = Math.max(4, Math.min(22, Math.floor(300 / mesh.devices.length)));
  const paint = (): void => {
    if (!data.transfers.length) return;
    const count = mesh.devices.length, ratio = globalThis.devicePixelRatio || 1, edge = 26, most = data.transfers.reduce((top, each) => Math.max(top, each.size), 1);
    const side = count * cell + edge + 2;
    [matrix.width, matrix.height] = [side * ratio, side * ratio];
    matrix.style.width = matrix.style.height = `${side}px`;
    const pen = matrix.getContext("2d")!;
    pen.scale(ratio, ratio);
    pen.font = "9px monospace";
    const every = Math.ceil(26 / cell / 2);
    for (let i = 0; i < count; i++) {
      pen.fillStyle = colour(root, i === chosen ? "--accent" : "--soft");
      if (i % every === 0 || i === chosen) {
        pen.fillText(String(i), edge + i * cell + 1, edge - 6);
        pen.fillText(String(i), 4, edge + (i + 0.75) * cell);
      }
      pen.fillStyle = colour(root, "--bar");
      pen.fillRect(edge + i * cell, edge + i * cell, cell - 0.5, cell - 0.5);
    }
    pen.fillStyle = colour(root, "--accent");
    for (const each of data.transfers) {
      pen.globalAlpha = 0.2 + (0.8 * each.size) / most;
      pen.fillRect(edge + each.destination * cell, edge + each.source * cell, cell - 0.5, cell - 0.5);
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = colour(root, "--edge");
    pen.strokeRect(edge - 0.5, edge - 0.5, count * cell + 1, count * cell + 1);
    if (chosen === null) return;
    pen.strokeStyle = colour(root, "--mark");
    pen.lineWidth = 2;
    pen.strokeRect(edge, edge + chosen * cell, count * cell, cell);
    pen.strokeRect(edge + chosen * cell, edge, cell, count * cell);
  };
  const under = (event: MouseEvent): [number, number] | null => {
    const frame = matrix.getBoundingClientRect();
    const [column, row] = [Math.floor((event.clientX - frame.left - 26) / cell), Math.floor((event.clientY - frame.top - 26) / cell)];
    return row >= 0 && column >= 0 && row < mesh.devices.length && column < mesh.devices.length ? [row, column] : null;
  };
  matrix.addEventListener("mousemove", (event) => {
    const at = under(event), moved = at && data.transfers.find((each) => each.source === at[0] && each.destination === at[1]);
    hint.textContent = at ? `device ${at[0]} → device ${at[1]}: ${moved ? size(moved.size) : "nothing"}` : "";
  });
  matrix.addEventListener("click", (event) => {
    const at = under(event);
    if (at) choose(at[0]);
  });
  const figures = (): HTMLElement | null => {
    const parts = [picture(), data.transfers.length ? make("figure", { class: "tsr-mesh-array" }, make("figcaption", {}, `transfers, ${size(data.transfers.reduce((sum, each) => sum + each.size, 0))} in all: from (rows) to (columns)`), matrix, hint) : null].filter((part) => part !== null);
    return parts.length ? make("div", { class: "tsr-mesh-figures" }, ...parts) : null;
  };

  const enclosures = new Map<string, typeof mesh.devices>();
  for (const device of mesh.devices) enclosures.set(device.enclosure, [...(enclosures.get(device.enclosure) ?? []), device]);
  const boxes = [...enclosures].map(([name, devices]) =>
    make("div", { class: "tsr-enclosure", role: "group", "aria-label": name }, make("div", { class: "tsr-soft", "aria-hidden": "true" }, name),
      make("div", { class: "tsr-devices", style: `--columns:${Math.min(4, devices.length)}` },
        ...devices.map((device) => {
          const tile = make("button", { type: "button", role: "option", class: "tsr-device", "data-device": device.number, tabindex: device.number ? -1 : 0, "aria-selected": "false",
            title: told(device.number), style: `--hue:${hue(device.number)}`, onclick: () => choose(chosen === device.number ? null : device.number) },
            make("b", {}, String(device.number)), make("span", { class: "tsr-block" }, short(device.number)), make("span", { class: "tsr-moves" }));
          tiles.set(device.number, tile);
          return tile;
        }))));
  const axes = make("span", { role: "group", "aria-label": "mark devices along an axis" }, ...mesh.axes.map((each, i) => {
    const press = make("button", { type: "button", "aria-pressed": "false", title: `mark the devices along ${each.name}`, onclick: () => {
      axis = axis === i ? null : i;
      axes.querySelectorAll("button").forEach((other, j) => other.setAttribute("aria-pressed", String(j === axis)));
      if (axis !== null && chosen === null) choose(0);
      else mark();
    } }, `axis ${each.name}: ${each.size}`);
    return press;
  }));
  const rows = mesh.devices.map((each) => [String(each.number), place(each.number), each.enclosure, ...(array ? [block(each.number), data.bytes[each.number].toLocaleString("en")] : [])]);
  root.append(
    make("div", { class: "tsr-head" }, make("span", { class: "tsr-name" }, data.title), make("span", { class: "tsr-pill" }, mesh.link), make("span", { class: "tsr-grow" }), axes),
    make("div", { class: "tsr-mesh", role: "listbox", "aria-label": "devices", onkeydown: step }, ...boxes),
    ...[figures()].filter((part) => part !== null),
    status,
    make("details", {}, make("summary", {}, "as a table"), make("div", { class: "tsr-scroll", tabindex: 0 },
      table(["device", "place", "in", ...(array ? ["block", "bytes"] : [])], rows, array ? [4] : []),
      data.transfers.length ? table(["from device", "to device", "bytes"], data.transfers.map((each) => [String(each.source), String(each.destination), each.size.toLocaleString("en")]), [2]) : null)),
  );
  const stop = context.bus.subscribe(root, (selection) => {
    const wanted = selection?.elements?.find((each) => each.array === array?.name)?.place;
    const holder = wanted && array!.shards.find((shard) => shard.start.every((from, i) => from <= wanted[i] && wanted[i] < shard.stop[i]));
    chosen = holder ? holder.device : null;
    mark();
    if (wanted && !holder) status.textContent = "no counterpart on this mesh";
  });
  mark();
  return { destroy: stop, themed: paint };
}

register("mesh", mount, style);
