// Selections shared by views: whatever is selected in one view is marked in every view of the same kernel.

/** What is selected, in terms that several views know.  A view marks what it has counterparts of, and says so if none.
 *  program: which Program the numbers in `ops` count in, where they come from one
 *  ops: operations of the Program; records: operations of one stage ("17.2"); lines: lines of the user's file
 *  tiles: groups of the launch; time: ns from the start of the launch; configs: keys of tuning points
 *  elements: places in an array; label: what it is, in words, for the status line */
export interface Selection {
  program?: string;
  ops?: number[];
  records?: string[];
  lines?: number[];
  tiles?: number[];
  time?: [number, number];
  configs?: string[];
  elements?: { array: string; place: number[] }[];
  label?: string;
}

export type Listener = (selection: Selection | null, from: object) => void;

/** One per kernel of a page. */
export class Bus {
  selection: Selection | null = null;
  private listeners = new Set<Listener>();

  /** Hear of every selection, but for those that `owner` makes itself; returns how to stop. */
  subscribe(owner: object, listener: Listener): () => void {
    const heard: Listener = (selection, from) => from !== owner && listener(selection, from);
    this.listeners.add(heard);
    return () => this.listeners.delete(heard);
  }

  /** Select; null takes the selection back. */
  select(selection: Selection | null, from: object): void {
    this.selection = selection;
    for (const listener of [...this.listeners]) listener(selection, from);
  }
}

const buses = new Map<string, Bus>();
export const busOf = (group: string): Bus => {
  const known = buses.get(group);
  if (known) return known;
  const made = new Bus();
  buses.set(group, made);
  return made;
};
