// Every trial as a row: sortable, filtered, heat-coloured with numbers; only the rows in sight are elements.
import { LongTable, make } from "../core";
import { ramp, type Host } from "./charts";
import { micro } from "./model";

const ROW = 22, HEAD = 46;

export function trials(host: Host) {
  const { root, model } = host;
  const names = model.data.parameters.map((each) => each.name);
  const heads: [string, string][] = [...names.map((name): [string, string] => [name, name]), ["time", "time"], ["", "GFLOP/s"], ["", "GB/s"], ["predicted", "predicted"], ["", "error"], ["trial", "trial"], ["", "status"], ["verdict", "remarks"]];
  const buttons = heads.map(([column, label]) =>
    column ? make("button", { type: "button", "data-sort": column, title: `sort by ${label}`, onclick: () => sort(column) }, label) : null);
  const filters = model.data.parameters.map((each) => {
    const select = make("select", { "aria-label": `only ${each.name}`, title: `only one value of ${each.name}`, onchange: () => {
      if (select.value === "") model.ranges.delete(each.name);
      else model.ranges.set(each.name, [Number(select.value), Number(select.value)]);
      host.brushed();
    } }, make("option", { value: "" }, "all"), ...each.values.map((text, i) => make("option", { value: i }, text)));
    return select;
  });
  const headRow = make("tr", {}, ...heads.map(([column, label], i) => make("th", { scope: "col", "data-column": column || null, class: i < names.length + 6 ? "tsr-num" : null }, buttons[i] ?? label, filters[i] ?? null)));
  const body = make("tbody");
  const grid = make("table", { class: "tsr-table tsr-trials", "aria-label": "trials" }, make("thead", {}, headRow), body);
  const box = make("div", { class: "tsr-trial-rows", tabindex: 0, role: "region", "aria-label": "all trials; arrow keys go from row to row" }, grid);

  const row = (at: number): HTMLTableRowElement => {
    const trial = model.rows[at], of = model.data.columns, seconds = of.seconds.data[trial], predicted = model.column("predicted")[trial], heat = model.heat(trial);
    const [flops, bytes] = model.rate(trial);
    const cells = [
      ...model.data.parameters.map((each) => each.values[each.codes.data[trial]] ?? ""),
      seconds > 0 ? micro(seconds) : "", flops, bytes, predicted > 0 ? micro(predicted) : "", model.error(trial), of.rank.data[trial] >= 0 ? String(of.rank.data[trial] + 1) : "", model.status(trial), model.remark(trial),
    ];
    return make("tr", { "data-row": trial },
      ...cells.map((text, i) => make("td", { class: i < names.length + 6 ? "tsr-num" : null, title: i === cells.length - 1 ? text : null, style: i === names.length && !Number.isNaN(heat) ? `border-right:6px solid ${ramp(root, heat)}` : null }, text)));
  };
  const rows = new LongTable(box, grid, body, { tall: ROW, head: HEAD, count: () => model.rows.length, row, on: (at) => model.rows[at] === host.chosen() });
  const draw = (): void => {
    rows.draw();
    for (const cell of headRow.children as HTMLCollectionOf<HTMLElement>) {
      const sorted = cell.dataset.column === model.sort;
      cell.setAttribute("aria-sort", sorted ? (model.descending ? "descending" : "ascending") : "none");
      cell.classList.toggle("tsr-sorted", sorted);
    }
    filters.forEach((select, i) => {
      const range = model.ranges.get(names[i]);
      select.value = range && range[0] === range[1] ? String(range[0]) : "";
      select.classList.toggle("tsr-filtering", range !== undefined);
    });
  };
  const sort = (column: string): void => {
    model.descending = model.sort === column ? !model.descending : false;
    model.sort = column;
    model.order();
    rows.toTop();
    draw();
  };
  body.addEventListener("click", (event) => {
    const hit = (event.target as HTMLElement).closest<HTMLElement>("[data-row]");
    if (hit) host.choose(Number(hit.dataset.row));
  });
  /** Mark what is chosen, and bring it into sight. */
  const mark = (): void => {
    const trial = host.chosen(), at = trial === null ? -1 : model.rows.indexOf(trial);
    if (at >= 0) rows.reveal(at);
    rows.mark();
  };
  return { node: box, draw, mark, destroy: () => rows.destroy() };
}
