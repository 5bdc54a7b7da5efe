// The look, in JupyterLab's own colours, so that every theme has its own.
import { EditorView } from "@codemirror/view";

const colour = (name: string, other: string) => `var(--jp-mirror-editor-${name}-color, ${other})`;

export const style = EditorView.baseTheme({
  ".tsr-cell-magic": { color: colour("meta", "#a2f"), fontWeight: "bold" },
  ".tsr-cell-option": { color: colour("attribute", "#00c") },
  ".tsr-cell-value": { color: colour("string", "#ba2121") },
  ".tsr-cell-kernel": { color: colour("def", "#00f"), fontWeight: "bold" },
  ".tsr-cell-clause": { color: colour("keyword", "#008000"), fontWeight: "bold" },
  ".tsr-cell-modifier": { color: colour("keyword", "#008000"), fontWeight: "bold" },
  ".tsr-cell-type": { color: colour("variable-3", "#05a") },
  ".tsr-cell-namespace": { color: colour("builtin", "#008000") },
  ".tsr-cell-operation": { color: colour("builtin", "#008000") },
  ".tsr-cell-unit": { color: colour("number", "#080") },
  ".tsr-cell-parameter": { color: colour("variable", "#212121"), fontStyle: "italic" },
  ".tsr-cell-extent": { color: colour("attribute", "#00c"), fontStyle: "italic" },
  ".tsr-cell-local": { color: colour("variable", "#212121") },
  ".tsr-cell-mistake": {
    textDecoration: "underline wavy var(--jp-error-color1, #d32f2f)",
    textDecorationSkipInk: "none",
    textUnderlineOffset: "2px",
  },
  ".cm-tooltip:has(> .tsr-cell-tip)": {
    border: "1px solid var(--jp-border-color1, #bdbdbd)",
    borderRadius: "var(--jp-border-radius, 2px)",
    background: "var(--jp-layout-color1, #fff)",
    boxShadow: "var(--jp-elevation-z4, 0 2px 6px #0003)",
  },
  ".tsr-cell-tip": {
    maxWidth: "min(80ch, 90vw)",
    maxHeight: "min(24em, 50vh)",
    overflow: "auto",
    color: "var(--jp-content-font-color1, #212121)",
    fontFamily: "var(--jp-ui-font-family, sans-serif)",
    fontSize: "var(--jp-ui-font-size1, 13px)",
    lineHeight: "1.4",
  },
  ".tsr-cell-tip > div": { padding: "6px 10px" },
  ".tsr-cell-tip > div + div": { borderTop: "1px solid var(--jp-border-color2, #e0e0e0)" },
  ".tsr-cell-tip-head": { fontWeight: "600", color: "var(--jp-error-color1, #d32f2f)" },
  ".tsr-cell-tip-note": { color: "var(--jp-content-font-color2, #616161)" },
  ".tsr-cell-tip-hint": { marginTop: "2px", fontWeight: "600" },
  ".tsr-cell-tip-code": { fontFamily: "var(--jp-code-font-family, monospace)", fontSize: "var(--jp-code-font-size, 13px)", fontWeight: "600" },
  ".tsr-cell-tip-text": { marginTop: "4px", whiteSpace: "pre-wrap", fontFamily: "var(--jp-code-font-family, monospace)", fontSize: "0.92em" },
});
