// Which text is a cell of Tessera, and positions in it: CodeMirror counts offsets, the service lines and columns.
import type { Text } from "@codemirror/state";
import type { Place } from "./link";

const MAGIC = /^\s*%%tessera(?=\s|$)/;

export function isTessera(doc: Text): boolean {
  return MAGIC.test(doc.sliceString(0, 400));
}

export function offsetOf(doc: Text, [line, column]: Place): number {
  if (line >= doc.lines) return doc.length;
  const found = doc.line(line + 1);
  return Math.min(found.from + column, found.to);
}

export function placeOf(doc: Text, offset: number): { line: number; column: number } {
  const line = doc.lineAt(offset);
  return { line: line.number - 1, column: offset - line.from };
}
