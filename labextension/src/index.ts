// Tessera in JupyterLab and Notebook: `%%tessera` cells get colours, mistakes while typing, and help; no other cell is
// touched, but views can have a line written into a new cell.
import { IEditorExtensionRegistry } from "@jupyterlab/codemirror";
import { ICompletionProviderManager } from "@jupyterlab/completer";
import { INotebookTracker } from "@jupyterlab/notebook";
import { Prec, type Extension } from "@codemirror/state";
import { EditorView, hoverTooltip, ViewPlugin, type ViewUpdate } from "@codemirror/view";
import { isTessera, offsetOf, placeOf } from "./cell";
import { colours, setWords } from "./colours";
import { insertProposals } from "./insert";
import { Link, type Mistake, type Offers, type Told, type Word } from "./link";
import { described, mistakes, mistakesAt, setMistakes } from "./mistakes";
import { style } from "./style";
import { element, told } from "./tooltip";

type Registry = import("@jupyterlab/codemirror").IEditorExtensionRegistry;
type Tracker = import("@jupyterlab/notebook").INotebookTracker;
type Completers = import("@jupyterlab/completer").ICompletionProviderManager;

const PAUSE_MS = 80;
const links = new WeakMap<SessionContext, Link>();

// The link of the notebook that an editor is in; null for editors elsewhere.
function linkOf(view: EditorView, tracker: Tracker | null): Link | null {
  const context = tracker?.find((panel) => panel.node.contains(view.dom))?.sessionContext;
  if (!context) return null;
  const link = links.get(context) ?? new Link(context);
  links.set(context, link);
  return link;
}

// Asks for a cell's mistakes and words when typing pauses, one question at a time.
function checker(tracker: Tracker | null): Extension {
  return ViewPlugin.fromClass(
    class {
      private timer = 0;
      private asking = false;
      private again = false;
      private gone = false;
      private link: Link | null = null;
      private forget = () => {};

      constructor(private readonly view: EditorView) {
        this.schedule();
      }

      update(update: ViewUpdate): void {
        if (update.docChanged) this.schedule();
      }

      destroy(): void {
        this.gone = true;
        this.forget();
        window.clearTimeout(this.timer);
      }

      private schedule(): void {
        window.clearTimeout(this.timer);
        if (isTessera(this.view.state.doc)) this.timer = window.setTimeout(() => void this.check(), PAUSE_MS);
      }

      private attach(): Link | null {
        const link = linkOf(this.view, tracker);
        if (link !== this.link) {
          this.forget();
          this.link = link;
          this.forget = link?.listen(() => this.schedule()) ?? (() => {});
        }
        return link;
      }

      private async check(): Promise<void> {
        const link = this.attach();
        if (this.asking || !link || this.gone) {
          this.again = this.asking;
          return;
        }
        this.asking = true;
        const doc = this.view.state.doc;
        const text = doc.toString();
        const [found, words] = await Promise.all([
          link.ask<{ mistakes?: Mistake[] }>({ type: "diagnose", text }),
          link.ask<{ words?: Word[] }>({ type: "tokens", text }),
        ]);
        this.asking = false;
        if (this.gone) return;
        // An answer about an older text would mark the wrong place; the text of now is asked about next.
        if (this.view.state.doc.eq(doc)) {
          const effects = [];
          if (found?.mistakes) effects.push(setMistakes.of(found.mistakes));
          if (words?.words) effects.push(setWords.of(words.words));
          if (effects.length) this.view.dispatch({ effects });
        }
        if (this.again) {
          this.again = false;
          this.schedule();
        }
      }
    },
  );
}

function hover(tracker: Tracker | null): Extension {
  return hoverTooltip(async (view, offset) => {
    const doc = view.state.doc;
    if (!isTessera(doc)) return null;
    const wrong = mistakesAt(view.state, offset);
    const answer = await linkOf(view, tracker)?.ask<Told>({ type: "hover", text: doc.toString(), ...placeOf(doc, offset) });
    const known = answer?.start && answer.end ? answer : null;
    if (!view.state.doc.eq(doc) || (!wrong.length && !known)) return null;
    const start = known ? offsetOf(doc, known.start!) : wrong[0]!.from;
    const end = known ? offsetOf(doc, known.end!) : wrong[0]!.to;
    return {
      pos: start,
      end,
      above: true,
      create: () => {
        const dom = wrong.length ? described(wrong.map((one) => one.mistake)) : element("div", "tsr-cell-tip");
        if (known) dom.append(told(known));
        return { dom };
      },
    };
  });
}

function completion(tracker: Tracker | null) {
  const viewOf = (editor: { editor?: unknown } | null | undefined) => editor?.editor as EditorView | undefined;
  return {
    identifier: "CompletionProvider:tessera",
    rank: 600, // above the kernel's own
    isApplicable: async (context: { editor?: { editor?: unknown } | null }) => {
      const view = viewOf(context.editor);
      return view !== undefined && isTessera(view.state.doc);
    },
    fetch: async (request: { text: string; offset: number }, context: { editor?: { editor?: unknown } | null }) => {
      const none = { start: request.offset, end: request.offset, items: [] };
      const view = viewOf(context.editor);
      if (!view) return none;
      const doc = view.state.doc;
      const offset = Math.min(request.offset, doc.length);
      const question = { type: "complete", text: doc.toString(), ...placeOf(doc, offset) };
      const answer = await linkOf(view, tracker)?.ask<Offers>(question);
      if (!answer?.start || !answer.offers?.length) return none;
      const items = answer.offers.map(({ text, kind, detail, summary }) => ({
        label: text,
        insertText: text,
        type: kind,
        documentation: [detail && `${text}${detail.startsWith("(") ? detail : `: ${detail}`}`, summary].filter(Boolean).join("\n\n"),
      }));
      return { start: offsetOf(doc, answer.start), end: offset, items };
    },
  };
}

const plugin = {
  id: "tessera:language",
  description: "Colours, mistakes, types, documentation and names in cells that begin with %%tessera.",
  autoStart: true,
  requires: [IEditorExtensionRegistry],
  optional: [INotebookTracker, ICompletionProviderManager].filter(Boolean),
  activate: (_app: unknown, registry: Registry, tracker: Tracker | null, completers: Completers | null): void => {
    const extension: Extension = [Prec.highest(colours), Prec.lowest(mistakes), checker(tracker), hover(tracker), style];
    registry.addExtension({
      name: "tessera",
      factory: ({ model }) =>
        model.mimeType.includes("python") ? { instance: () => extension, reconfigure: () => null } : null,
    });
    if (tracker) insertProposals(tracker);
    completers?.registerProvider(completion(tracker));
  },
};

export default plugin;
