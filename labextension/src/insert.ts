// Writes code that a view proposes into its notebook: as a cell below the one that shows the view.

type Tracker = import("@jupyterlab/notebook").INotebookTracker;

// What a view dispatches from its element; `inserted` is the answer, false where nobody writes cells.
export interface Proposal {
  code: string;
  inserted: boolean;
}

export function insertProposals(tracker: Tracker): void {
  document.addEventListener("tessera:insert", (event) => {
    const view = event.target as HTMLElement;
    const proposal = (event as CustomEvent<Proposal>).detail;
    const notebook = tracker.find((panel) => panel.node.contains(view))?.content;
    const at = notebook?.widgets.findIndex((cell) => cell.node.contains(view)) ?? -1;
    if (!notebook?.model || at < 0) return;
    notebook.model.sharedModel.insertCell(at + 1, { cell_type: "code", source: proposal.code });
    notebook.activeCellIndex = at + 1;
    proposal.inserted = true;
  });
}
