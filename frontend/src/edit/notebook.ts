// The notebook around a view: put an edited text into the cell that holds the original.

interface Editor { state: { doc: { toString(): string } }; dispatch(change: object): void }

/** The editor of CodeMirror that owns a content element; its property has changed its name between versions. */
const editorOf = (content: Element): Editor | null => {
  const held = content as unknown as { cmView?: { view?: Editor; rootView?: { view: Editor } }; cmTile?: { view?: Editor } };
  return held.cmView?.view ?? held.cmView?.rootView?.view ?? held.cmTile?.view ?? null;
};

/** Replace `original` by `edited` in the first cell of the notebook that holds it; false where none does. */
export function takeBack(root: HTMLElement, original: string, edited: string): boolean {
  const notebook = root.closest(".jp-Notebook") ?? document;
  for (const content of notebook.querySelectorAll(".jp-CodeCell .cm-content, .cell .cm-content")) {
    const editor = editorOf(content);
    const text = editor?.state.doc.toString() ?? "";
    const from = text.indexOf(original);
    if (!editor || from < 0) continue;
    editor.dispatch({ changes: { from, to: from + original.length, insert: edited } });
    return true;
  }
  return false;
}
