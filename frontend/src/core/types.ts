// What a renderer is given and gives.

import type { Bus } from "./bus";

/** The way to Python: a live view has one.  `ask` sends a message and waits for the reply that carries its number. */
export interface Channel {
  send(message: Record<string, unknown>): void;
  ask(message: Record<string, unknown>): Promise<any>;
  listen(heard: (message: any) => void): () => void;
}

/** Asks the worker of a large library, which answers null where it does not work. */
export type Ask = (given: unknown) => Promise<any>;

export interface Context {
  bus: Bus;
  channel: Channel | null;
  live: boolean;
}

/** What a renderer returns; `themed` is called when light and dark change, so that canvases draw again. */
export interface View {
  themed?(dark: boolean): void;
  destroy?(): void;
}

/** A renderer: draws `data`, the payload of the view of its kind, into `root`. */
export type Mount = (root: HTMLElement, data: any, context: Context) => View;

export interface Registry {
  lib: any;
  register(kind: string, mount: Mount, css?: string): void;
  mount(root: HTMLElement, kind: string, data: any, channel: Channel | null): Promise<View>;
  boot(): void;
}
