// Colours of Tessera's own words, above those of JupyterLab's Python: names of the language from the generated table, at
// once and without a kernel; parameters, shape names and locals as the kernel's service tells them.
import { RangeSetBuilder, StateEffect, StateField, type EditorState, type Text } from "@codemirror/state";
import { Decoration, EditorView, type DecorationSet } from "@codemirror/view";
import { isTessera, offsetOf } from "./cell";
import type { Word } from "./link";
import names from "./names.json";

type Found = { from: number; to: number; kind: string };

const MARKS = new Map<string, Decoration>();
const TABLE = new Map<string, string>(
  Object.entries(names.kinds as Record<string, string[]>).flatMap(([kind, words]) => words.map((word) => [word, kind])),
);
// Strings and comments are skipped; a dotted path is one match, so that `x.tile` is no name of the language.
const WORDS = /#.*|("""|''')[^]*?(?:\1|$)|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|\b\d\w*_[KMG]iB\b|[\p{L}_][\p{L}\p{N}_]*(?:\.[\p{L}_][\p{L}\p{N}_]*)*/gu;
const UNIT = /^\d/;

function mark(kind: string): Decoration {
  const known = MARKS.get(kind) ?? Decoration.mark({ class: `tsr-cell-${kind}` });
  MARKS.set(kind, known);
  return known;
}

// The first line: the magic, its options and their values.
function magicLine(text: string, offset: number): Found[] {
  return [...text.matchAll(/\S+/g)].map((match, at) => {
    const kind = at === 0 ? "magic" : match[0].startsWith("-") ? "option" : "value";
    return { from: offset + match.index, to: offset + match.index + match[0].length, kind };
  });
}

// The names of the language in a line of code or several.
export function lexical(text: string, offset: number): Found[] {
  const found: Found[] = [];
  for (const match of text.matchAll(WORDS)) {
    const word = match[0];
    const from = offset + match.index;
    if (/^["'#]/.test(word)) continue;
    if (UNIT.test(word)) {
      found.push({ from, to: from + word.length, kind: "unit" });
      continue;
    }
    const before = text.slice(text.lastIndexOf("\n", match.index) + 1, match.index);
    const after = text.slice(match.index + word.length);
    if (/[.]\s*$/.test(before) || (/^\s*=(?!=)/.test(after) && /[(,]\s*$/.test(before))) continue;
    if (/^\s*@.*\s$/.test(before) && names.clauses.includes(word)) {
      found.push({ from, to: from + word.length, kind: "clause" });
      continue;
    }
    const parts = word.split(".");
    let start = from;
    for (let at = 0; at < parts.length; at++) {
      const kind = TABLE.get(parts.slice(0, at + 1).join("."));
      if (!kind) break;
      found.push({ from: start, to: start + parts[at]!.length, kind });
      start += parts[at]!.length + 1;
    }
  }
  return found;
}

function scanned(doc: Text): Found[] {
  const text = doc.toString();
  const first = text.search(/\S/);
  const end = text.indexOf("\n", first);
  if (end < 0) return magicLine(text.slice(first), first);
  return [...magicLine(text.slice(first, end), first), ...lexical(text.slice(end), end)];
}

export const setWords = StateEffect.define<Word[]>();

type Colours = { told: DecorationSet; all: DecorationSet };
const NONE: Colours = { told: Decoration.none, all: Decoration.none };
const TOLD = new Set(["parameter", "extent", "local", "kernel"]);

function built(found: Found[]): DecorationSet {
  const builder = new RangeSetBuilder<Decoration>();
  for (const { from, to, kind } of found.sort((a, b) => a.from - b.from || a.to - b.to)) builder.add(from, to, mark(kind));
  return builder.finish();
}

function fresh(state: EditorState, told: DecorationSet): Colours {
  if (!isTessera(state.doc)) return NONE;
  const ranges: Found[] = [];
  told.between(0, state.doc.length, (from, to, value) => {
    if (from < to) ranges.push({ from, to, kind: (value.spec as { class: string }).class.replace("tsr-cell-", "") });
  });
  const own = new Set(ranges.map((one) => one.from));
  return { told, all: built([...scanned(state.doc).filter((one) => !own.has(one.from)), ...ranges]) };
}

export const colours = StateField.define<Colours>({
  create: (state) => fresh(state, Decoration.none),
  update(value, transaction) {
    let told = value.told;
    let changed = transaction.docChanged;
    if (changed) told = told.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (!effect.is(setWords)) continue;
      changed = true;
      const doc = transaction.newDoc;
      told = built(
        effect.value
          .filter(([, , , kind]) => TOLD.has(kind))
          .map(([line, column, length, kind]) => {
            const from = offsetOf(doc, [line, column]);
            return { from, to: Math.min(from + length, doc.length), kind };
          })
          .filter(({ from, to }) => from < to),
      );
    }
    return changed ? fresh(transaction.state, told) : value;
  },
  provide: (field) => EditorView.decorations.from(field, (value) => value.all),
});
