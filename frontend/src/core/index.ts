// What views import as "../core"; the build replaces this module by the core that the page already has.

export * from "./dom";
export * from "./decode";
export * from "./theme";
export * from "./highlight";
export * from "./split";
export { LongTable } from "./rows";
export type { RowSource } from "./rows";
export { CodePane, ROW } from "./code_pane";
export type { CodeEvents, CodeText, Gutter } from "./code_pane";
export { Bus, busOf } from "./bus";
export type { Selection, Listener } from "./bus";
export type { Ask, Channel, Context, Mount, View } from "./types";

import type { Ask, Mount, View, Channel } from "./types";
export declare function addStyle(text: string, root?: Node): void;
export declare function register(kind: string, mount: Mount, css?: string): void;
export declare function library(name: string, channel: Channel | null): Promise<Ask | null>;
export declare function mount(root: HTMLElement, kind: string, data: any, channel: Channel | null): Promise<View>;
export declare function renderer(kind: string): Promise<Mount>;
