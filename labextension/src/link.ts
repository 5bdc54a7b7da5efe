// The way to the kernel's language service: one comm for each notebook, opened when a cell asks first.
//
// Without a kernel, or with one that has not loaded Tessera, every answer is null.  A kernel that had no service is asked
// again after a cell that mentions Tessera ran.

export type Place = [line: number, column: number];
export type Mistake = { start: Place; end: Place; code: string; title: string; message: string; hint: string; notes: string[] };
export type Word = [line: number, column: number, length: number, kind: string];
export type Told = { start?: Place; end?: Place; code?: string; text?: string };
export type Offer = { text: string; kind: string; detail: string; summary: string };
export type Offers = { start?: Place; offers?: Offer[]; alone?: boolean };

type Request = { type: string; text: string; line?: number; column?: number };
type Answer = Record<string, unknown>;

const TARGET = "tessera.language";
const PATIENCE_MS = 20_000;

export class Link {
  private comm: Comm | null = null;
  private kernel: Kernel | null = null;
  private refused = false;
  private mentioned = false;
  private ran = false;
  private number = 0;
  private readonly waiting = new Map<number, (answer: Answer | null) => void>();
  private readonly listeners = new Set<() => void>();

  constructor(private readonly context: SessionContext) {
    context.kernelChanged.connect(() => this.reset());
    context.statusChanged.connect((_, status) => {
      if (["restarting", "autorestarting", "dead", "unknown"].includes(status)) this.reset();
    });
    context.iopubMessage.connect((_, message) => this.heard(message));
  }

  // Ask the service; null where there is none, or where it does not answer in time.
  async ask<T extends object>(request: Request): Promise<T | null> {
    const comm = this.open();
    if (!comm) return null;
    const number = ++this.number;
    const answer = await new Promise<Answer | null>((resolve) => {
      this.waiting.set(number, resolve);
      setTimeout(() => this.settle(number, null), PATIENCE_MS);
      comm.send({ ...request, number });
    });
    return answer && !("error" in answer) ? (answer as T) : null;
  }

  // Be told when the names that cells can use may have changed.
  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private open(): Comm | null {
    const kernel = this.context.session?.kernel ?? null;
    if (kernel !== this.kernel) this.reset();
    if (!kernel || kernel.isDisposed || this.refused) return null;
    if (this.comm) return this.comm;
    this.kernel = kernel;
    try {
      const comm = kernel.createComm(TARGET);
      comm.onMsg = (message) => this.settle(Number(message.content.data["number"]), message.content.data);
      comm.onClose = () => {
        if (this.comm === comm) this.reset();
        this.refused = true;
      };
      comm.open();
      this.comm = comm;
    } catch {
      this.refused = true; // a connection without comms
    }
    return this.comm;
  }

  private heard({ header, content }: IopubMessage): void {
    if (header.msg_type === "execute_input") {
      this.ran = true;
      this.mentioned ||= content.code?.includes("tessera") ?? false;
    }
    if (header.msg_type !== "status" || content.execution_state !== "idle" || !this.ran) return;
    if (this.mentioned) this.refused = false;
    this.ran = this.mentioned = false;
    for (const listener of this.listeners) listener();
  }

  private settle(number: number, answer: Answer | null): void {
    this.waiting.get(number)?.(answer);
    this.waiting.delete(number);
  }

  private reset(): void {
    this.comm = this.kernel = null;
    this.refused = false;
    for (const number of [...this.waiting.keys()]) this.settle(number, null);
  }
}
