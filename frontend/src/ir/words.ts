// What the explorer says in words: of a selection, of a level as a whole, of the line that the keys are on.

import { make, plural } from "../core";
import type { Choice } from "./choice";
import type { Chosen, Column, Pane, Payload } from "./data";
import { branchText } from "./gutters";

type Words = (Node | string)[];

/** The status line. */
export function status(data: Payload, panes: Pane[], choice: Choice, selected: Chosen | null, counts: Map<Pane, number>, first: Pane | undefined): Words {
  const grow = make("span", { class: "tsr-grow" });
  if (!selected) {
    const key = (name: string): HTMLElement => make("kbd", {}, name);
    return [make("span", { class: "tsr-keys" }, "click a line to see what it became · ", key("↑"), " ", key("↓"), " ", key("Enter"), " · ", key("n"), " ", key("p"), " next, previous · ",
      key("←"), " ", key("→"), " fold · ", key("Esc"), " clear"), grow, make("span", {}, first ? coverage(data, first) : "")];
  }
  const places = [...selected.places].sort((a, b) => a - b);
  const trail = choice.levels.map((level) => `${level} ${counts.get(choice.chosen[level]) || "no counterpart"}`);
  const told = story(data, panes, [...selected.ops]);
  return [make("b", {}, places.length ? `line ${places.join(", ")}` : "no source line: the compiler's own"),
    make("span", { class: "tsr-trail" }, trail.join("  →  ")), ...(told ? [grow, make("span", { class: "tsr-story" }, told)] : [])];
}

/** How much of a level has a source line. */
function coverage(data: Payload, pane: Pane): string {
  const remark = data.remarks?.[pane.level];
  if (remark) return remark;
  let own = 0;
  for (const key of pane.keys) own += Number(data.keys[key][0].length > 0);
  return `${pane.level}: ${plural(pane.keys.length, "line")}, ${own} from your source, ${pane.keys.length - own} the compiler's own`;
}

function story(data: Payload, panes: Pane[], ops: number[]): string {
  if (!ops.length) return "";
  if (ops.length > 1) return `${ops.length} operations`;
  const found = data.ops[ops[0]];
  if (!found) return "";
  const where = (index: number): string => {
    const pane = panes[index];
    return panes.filter((each) => each.level === pane.level).length === 1 ? pane.level : pane.name;
  };
  const fused = found.mates.length ? `, together with ${found.mates.length} more` : "";
  return `operation ${ops[0]}: born in ${where(found.born)}, seen down to ${where(found.last)}${fused}`;
}

/** What was measured of a line of the source. */
export function measurement(column: Column, line: number): Node[] {
  const kind = column.kinds[column.cells[line]];
  return kind ? [make("span", {}, make("b", {}, column.title), ` ${kind[1]}`)] : [];
}

/** What is known of a line of a pane: its operation, figures, jumps, and the passes that made and removed it.
 *  jump: go to a pass, where the operation is on the line that pane number `seen` has it on */
export function explanation(data: Payload, panes: Pane[], pane: Pane, line: number, jump: (pane: Pane, record: string, seen: number) => void): Node[] {
  const parts: Node[] = [];
  const [name, text] = data.docs[pane.docs[line] ?? -1] ?? [];
  if (name) parts.push(make("span", {}, make("b", {}, name), ` ${text}`));
  for (const column of pane.columns) parts.push(...measurement(column, line));
  const jumps = branchText(pane, line);
  if (jumps) parts.push(make("span", {}, jumps));
  const [record, born, last] = data.records[pane.records[line] ?? -1] ?? [];
  if (record === undefined) return parts;
  parts.push(make("span", {}, `operation ${record}`));
  const go = (kind: string, to: Pane, seen: number): HTMLElement =>
    make("button", { type: "button", class: "tsr-jump", "data-jump": kind, onclick: () => jump(to, record, seen) }, `${kind} by ${to.sent.stage} ↗`);
  if (born && panes[born - 1].level === pane.level) parts.push(go("made", panes[born], born));
  const after = panes[last + 1];
  if (after?.level === pane.level) parts.push(go("removed", after, last));
  return parts;
}
