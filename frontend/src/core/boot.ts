// The core: one global object for all views of a page, whichever way they came (outputs, saved pages, live widgets).

import * as dom from "./dom";
import * as decode from "./decode";
import * as theme from "./theme";
import * as highlight from "./highlight";
import * as split from "./split";
import * as rows from "./rows";
import * as code from "./code_pane";
import { Bus, busOf } from "./bus";
import type { Ask, Registry, View, Mount, Channel } from "./types";
import style from "./core.css";
import codeStyle from "./code_pane.css";

const renderers = new Map<string, Mount>();
const waiting = new Map<string, ((mount: Mount) => void)[]>();
const styles = new Set<string>();

/** Add a style sheet to the document, once. */
function addStyle(text: string, root: Node = document): void {
  const scope = root.getRootNode() instanceof ShadowRoot ? (root.getRootNode() as ShadowRoot) : document.head;
  const key = scope === document.head ? text : "";
  if (key && styles.has(key)) return;
  if (key) styles.add(key);
  scope.append(dom.make("style", {}, text));
}

/** Wait for a renderer: scripts of a page, and the hub of live views, may come later than a view. */
function renderer(kind: string): Promise<Mount> {
  const known = renderers.get(kind);
  if (known) return Promise.resolve(known);
  return new Promise((resolve) => waiting.set(kind, [...(waiting.get(kind) ?? []), resolve]));
}

function register(kind: string, mount: Mount, css = ""): void {
  if (css) addStyle(css);
  if (renderers.has(kind)) return;
  renderers.set(kind, mount);
  for (const resolve of waiting.get(kind) ?? []) resolve(mount);
  waiting.delete(kind);
}

const workers = new Map<string, Promise<Ask | null>>();

/** Start the worker that a large library is (src/lazy), once a page, and return how to ask it: by the channel of a live
 *  view, which sends its script.  Gives null where there is none, or where the page may have no workers. */
function library(name: string, channel: Channel | null): Promise<Ask | null> {
  const known = workers.get(name);
  if (known || !channel) return known ?? Promise.resolve(null);
  const started = channel.ask({ type: "script", name }).then(({ text }) => (text ? work(text) : null));
  workers.set(name, started);
  return started;
}

function work(script: string): Ask | null {
  const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  let worker: Worker;
  try {
    worker = new Worker(address);
  } catch {
    return null; // a policy of the page forbids it
  }
  const asked = new Map<number, (made: any) => void>();
  let number = 0;
  const answer = (to: number, made: any): void => {
    asked.get(to)?.(made);
    asked.delete(to);
  };
  worker.onmessage = ({ data }) => answer(data.number, data.made);
  worker.onerror = () => {
    for (const waiting of [...asked.keys()]) answer(waiting, null);
  };
  return (given) => new Promise((resolve) => {
    asked.set(++number, resolve);
    worker.postMessage({ number, given });
  });
}

/** Draw a view into `root`.  Without a channel it is static: what needs the kernel is not offered. */
async function mount(root: HTMLElement, kind: string, data: any, channel: Channel | null): Promise<View> {
  addStyle(style, root);
  addStyle(codeStyle, root);
  const draw = await renderer(kind);
  root.classList.add("tsr-view");
  root.dataset.kind = kind;
  root.dataset.lmSuppressShortcuts = "true";
  const bus = busOf(data?.group ?? `alone ${Math.random()}`);
  const view = draw(root, data, { bus, channel, live: channel !== null });
  const stop = theme.followTheme(root, (dark) => view.themed?.(dark));
  root.addEventListener("keydown", (event) => leave(event, root));
  root.dataset.ready = "1";
  return {
    ...view,
    destroy: () => {
      stop();
      view.destroy?.();
    },
  };
}

/** Escape that no view took itself: back to the notebook's own keys. */
function leave(event: KeyboardEvent, root: HTMLElement): void {
  if (event.key !== "Escape" || event.defaultPrevented) return;
  (root.parentElement?.closest(".jp-Notebook, [tabindex]") as HTMLElement | null)?.focus({ preventScroll: true });
}

/** Draw every view that stands in the document as data and was not drawn yet. */
function boot(): void {
  for (const root of document.querySelectorAll<HTMLElement>(".tsr-view:not([data-found])")) {
    const node = root.querySelector<HTMLElement>(":scope > .tsr-data");
    if (!node) continue;
    root.dataset.found = "1";
    void decode.unpack(node).then(async (data) => {
      const plain = root.querySelector<HTMLElement>(":scope > .tsr-plain");
      await mount(root, root.dataset.kind!, data, null);
      if (plain) plain.hidden = true;
    });
  }
}

declare global {
  // eslint-disable-next-line no-var
  var __tessera_v1: Registry | undefined;
}

globalThis.__tessera_v1 ??= {
  lib: { ...dom, ...decode, ...theme, ...highlight, ...split, ...rows, ...code, Bus, busOf, addStyle, register, mount, renderer, library },
  register,
  mount,
  boot,
};
