// A tokenizer small enough to send with every output: one regular expression a language.

import { escape } from "./dom";

type Word = [kind: string, pattern: string];

const SOURCE: Word[] = [
  ["x", "#.*"],
  ["s", "\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'"],
  ["k", "\\b(?:def|for|if|elif|else|while|in|return|and|or|not|from|import|as|True|False|None|mut|pass|with|class|lambda)\\b|@[\\w.]+"],
  ["t", "\\b(?:[fiu](?:8|16|32|64)|bf16|tf32|fp8_e\\dm\\d|bool|float|int|tensor|Tensor)\\b"],
  ["0", "\\b\\d[\\w.]*"],
];
const MLIR: Word[] = [
  ["x", "//.*"],
  ["s", "\"(?:[^\"\\\\]|\\\\.)*\""],
  ["t", "\\b(?:vector|tensor|memref|tile|array|shared)<(?:[^<>]|<[^<>]*>)*>|!\\w[\\w.<>]*|\\b(?:[fi]\\d+|f8E\\dM\\d(?:FN)?|bf16|tf32|index)\\b"],
  ["v", "[%@^#][\\w$.#-]+"],
  ["k", "\\b[a-z_]\\w*\\.[\\w.]+|\\b(?:func|return|mut|kind|to|step|iter_args|else|do|module|attributes)\\b"],
  ["0", "-?\\b\\d[\\w.+]*"],
];
const LLVM: Word[] = [
  ["x", ";.*"],
  ["s", "c?\"(?:[^\"\\\\]|\\\\.)*\""],
  ["v", "[%@!#][\\w$.-]+"],
  ["t", "<\\d+ x \\w+>|\\b(?:i\\d+|float|double|half|bfloat|ptr|void|label)\\b"],
  ["k", "^\\s*(?:define|declare|ret|br|store|call|tail|switch|unreachable)\\b|(?<== )(?:tail )?[a-z]\\w*"],
  ["0", "-?\\b\\d[\\w.+]*"],
];
const ASM: Word[] = [
  ["x", "#.*|//.*|;\\s*$|/\\*.*?\\*/"],
  ["s", "\"(?:[^\"\\\\]|\\\\.)*\""],
  ["k", "(?<=^\\s*(?:/\\*[\\da-f]+\\*/)?\\s*(?:@!?%?\\w+\\s+)?)\\.?[A-Za-z][\\w.]*(?=\\s|;|$)"],
  ["v", "%[\\w.]+|\\b(?:[xyz]mm\\d+|[re]?[abcd]x|[re]?[sd]i|[re]?[sbi]p|r\\d+[dwb]?|k[0-7]|U?[RP]\\d+|U?[RP][ZT])\\b"],
  ["0", "[-+]?\\b(?:0x)?\\d[\\w.]*"],
];
const WORDS: Record<string, Word[]> = { source: SOURCE, llvm: LLVM, asm: ASM, ptx: ASM, sass: ASM };
const LONGEST = 4000;

const lexers = new Map<Word[], RegExp>();
const lexer = (words: Word[]): RegExp => {
  const known = lexers.get(words);
  if (known) return known;
  const made = new RegExp(words.map(([, word]) => `(${word})`).join("|"), "g");
  lexers.set(words, made);
  return made;
};

/** A line as HTML, words in colours; `language` is "source" or a level. */
export function paint(text: string, language: string): string {
  if (text.length > LONGEST) return escape(text);
  const words = WORDS[language] ?? MLIR;
  let html = "";
  let at = 0;
  for (const found of text.matchAll(lexer(words))) {
    if (!found[0]) continue;
    const kind = words[found.slice(1).findIndex((group) => group !== undefined)][0];
    html += escape(text.slice(at, found.index)) + `<span class="tsr-${kind}">${escape(found[0])}</span>`;
    at = found.index + found[0].length;
  }
  return html + escape(text.slice(at));
}

/** The same with places underlaid: [first character, character past the end], counted in code points from 0. */
export function paintExact(text: string, language: string, places: [number, number][]): string {
  const chars = [...text];
  let html = "";
  let at = 0;
  for (const [start, stop] of [...places].sort((a, b) => a[0] - b[0])) {
    if (start < at) continue;
    html += paint(chars.slice(at, start).join(""), language);
    html += `<span class="tsr-exact">${paint(chars.slice(start, stop).join(""), language)}</span>`;
    at = stop;
  }
  return html + paint(chars.slice(at).join(""), language);
}
