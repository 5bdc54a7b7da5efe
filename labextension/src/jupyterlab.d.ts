// The parts of JupyterLab that are used here: its own declarations would bring a hundred packages along.

interface Signal<Sender, Args> {
  connect(slot: (sender: Sender, args: Args) => void): boolean;
}

interface Comm {
  open(): unknown;
  send(data: object): unknown;
  onMsg: (message: { content: { data: Record<string, unknown> } }) => void;
  onClose: () => void;
  dispose(): void;
}

interface Kernel {
  readonly id: string;
  readonly status: string;
  readonly isDisposed: boolean;
  createComm(target: string): Comm;
}

interface IopubMessage {
  header: { msg_type: string };
  content: { code?: string; execution_state?: string };
}

interface SessionContext {
  readonly session: { readonly kernel: Kernel | null } | null;
  readonly kernelChanged: Signal<SessionContext, unknown>;
  readonly statusChanged: Signal<SessionContext, string>;
  readonly iopubMessage: Signal<SessionContext, IopubMessage>;
}

declare module "@jupyterlab/codemirror" {
  import type { Extension, StateEffect } from "@codemirror/state";

  interface ConfigurableExtension {
    instance(value: unknown): Extension;
    reconfigure(value: unknown): StateEffect<unknown> | null;
  }
  interface IEditorExtensionRegistry {
    addExtension(factory: {
      name: string;
      factory(options: { inline?: boolean; model: { mimeType: string } }): ConfigurableExtension | null;
    }): void;
  }
  export const IEditorExtensionRegistry: unknown;
}

declare module "@jupyterlab/notebook" {
  interface NotebookPanel {
    readonly node: HTMLElement;
    readonly sessionContext: SessionContext;
    readonly content: {
      readonly widgets: readonly { readonly node: HTMLElement }[];
      readonly model: { readonly sharedModel: { insertCell(at: number, cell: { cell_type: "code"; source: string }): unknown } } | null;
      activeCellIndex: number;
    };
  }
  interface INotebookTracker {
    find(test: (panel: NotebookPanel) => boolean): NotebookPanel | undefined;
  }
  export const INotebookTracker: unknown;
}

declare module "@jupyterlab/completer" {
  interface CompletionItem {
    label: string;
    insertText?: string;
    type?: string;
    documentation?: string;
  }
  interface CompletionContext {
    editor?: { editor?: unknown } | null;
  }
  interface ICompletionProvider {
    identifier: string;
    rank: number;
    isApplicable(context: CompletionContext): Promise<boolean>;
    fetch(
      request: { text: string; offset: number },
      context: CompletionContext,
    ): Promise<{ start: number; end: number; items: CompletionItem[] }>;
  }
  interface ICompletionProviderManager {
    registerProvider(provider: ICompletionProvider): void;
  }
  export const ICompletionProviderManager: unknown;
}
