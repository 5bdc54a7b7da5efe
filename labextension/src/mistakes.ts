// Mistakes: wavy underlines while typing, what they say on hover, and a way to them from the keyboard.
import { StateEffect, StateField, type EditorState, type Extension } from "@codemirror/state";
import { Decoration, EditorView, keymap, showTooltip, type DecorationSet, type Tooltip } from "@codemirror/view";
import { isTessera, offsetOf } from "./cell";
import type { Mistake } from "./link";
import { element } from "./tooltip";

export const setMistakes = StateEffect.define<Mistake[]>();
const point = StateEffect.define<number | null>();

const underlined = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(value, transaction) {
    let found = value.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (effect.is(setMistakes)) found = decorated(transaction.state, effect.value);
    }
    return found.size && !isTessera(transaction.newDoc) ? Decoration.none : found;
  },
  provide: (field) => EditorView.decorations.from(field),
});

function decorated(state: EditorState, mistakes: Mistake[]): DecorationSet {
  const ranges = mistakes.map((mistake) => {
    let [from, to] = [offsetOf(state.doc, mistake.start), offsetOf(state.doc, mistake.end)];
    // A mistake at the end of a line has nothing to underline there: take the character before it.
    if (to <= from) [from, to] = from > 0 && from === state.doc.lineAt(from).to ? [from - 1, from] : [from, from + 1];
    const label = `${mistake.code}: ${mistake.message}`;
    const attributes = { "data-code": mistake.code, "aria-invalid": "true", "aria-description": label };
    return { from, to: Math.min(to, state.doc.length), mark: Decoration.mark({ class: "tsr-cell-mistake", attributes, mistake }) };
  });
  return Decoration.set(ranges.filter(({ from, to }) => from < to).map(({ from, to, mark }) => mark.range(from, to)), true);
}

export type Shown = { from: number; to: number; mistake: Mistake };

// The mistakes around an offset, or all.
export function mistakesAt(state: EditorState, offset: number | null): Shown[] {
  const found: Shown[] = [];
  state.field(underlined, false)?.between(offset ?? 0, offset ?? state.doc.length, (from, to, value) => {
    found.push({ from, to, mistake: (value.spec as { mistake: Mistake }).mistake });
  });
  return found;
}

export function described(mistakes: Mistake[]): HTMLElement {
  const box = element("div", "tsr-cell-tip");
  for (const { code, title, message, hint, notes } of mistakes) {
    const entry = element("div", "tsr-cell-tip-mistake");
    entry.append(element("div", "tsr-cell-tip-head", `${code} ${title}`), element("div", "", message));
    for (const note of notes) entry.append(element("div", "tsr-cell-tip-note", `note: ${note}`));
    if (hint) entry.append(element("div", "tsr-cell-tip-hint", `try: ${hint}`));
    box.append(entry);
  }
  return box;
}

// What the keyboard asked to see; it goes with the next key.
const pointed = StateField.define<Tooltip | null>({
  create: () => null,
  update(value, transaction) {
    for (const effect of transaction.effects) {
      if (!effect.is(point)) continue;
      const offset = effect.value;
      if (offset === null) return null;
      const mistakes = mistakesAt(transaction.state, offset).map((one) => one.mistake);
      return { pos: offset, above: true, create: () => ({ dom: live(described(mistakes)) }) };
    }
    return transaction.docChanged || transaction.selection ? null : value;
  },
  provide: (field) => showTooltip.from(field),
});

function live(node: HTMLElement): HTMLElement {
  node.setAttribute("role", "status");
  node.setAttribute("aria-live", "polite");
  return node;
}

function goTo(view: EditorView, forward: boolean): boolean {
  const all = mistakesAt(view.state, null);
  if (!all.length) return false;
  const here = view.state.selection.main.head;
  const next = forward ? (all.find(({ from }) => from > here) ?? all[0]!) : (all.findLast(({ from }) => from < here) ?? all.at(-1)!);
  view.dispatch({ selection: { anchor: next.from }, effects: point.of(next.from), scrollIntoView: true });
  return true;
}

export const mistakes: Extension = [
  underlined,
  pointed,
  keymap.of([
    { key: "F8", run: (view) => goTo(view, true), shift: (view) => goTo(view, false) },
    {
      key: "Escape",
      run: (view) => {
        if (!view.state.field(pointed)) return false;
        view.dispatch({ effects: point.of(null) });
        return true;
      },
    },
  ]),
];
