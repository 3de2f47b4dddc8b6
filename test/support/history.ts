/*
 * What callers of one node or cluster saw: calls and replies, in the order in which they happened. Both the model test
 * and the tests with real processes record one; `history-checker.ts` and `model/linearize.ts` judge it.
 *
 * Text stands for bytes, latin1, so that histories print and compare well. Instants are in ms on the node's clock.
 */

export interface RetryCall {
  readonly maxAttempts: number;
  readonly backoffInitialMs: number;
  readonly backoffMaxMs: number;
  /** Name without group; empty: the default. */
  readonly deadLetterQueue: string;
}

export interface EnqueueCall {
  readonly queue: string;
  /** undefined: FIFO. */
  readonly pid: string | undefined;
  /** Unique within the history: it tells where a task came from. */
  readonly data: string;
  readonly mode: 'collapse' | 'fail' | 'replace';
  readonly delayMs: number;
  readonly retry: RetryCall | undefined;
}

export interface TaskCall {
  readonly queue: string;
  readonly pid: string;
  readonly token: number | undefined;
}

export interface UpdateCall {
  readonly kind: 'update';
  readonly enqueue: readonly EnqueueCall[];
  readonly dequeue: readonly TaskCall[];
  readonly renew: readonly (TaskCall & { readonly leaseMs: number })[];
  readonly release: readonly (TaskCall & { readonly delayMs: number | undefined; readonly refund: boolean })[];
  readonly requestId: string | undefined;
}

export interface LeaseCall {
  readonly kind: 'lease';
  readonly queues: readonly string[];
  readonly maxTasks: number;
  readonly leaseMs: number;
  readonly maxPid: string | undefined;
  readonly maxBytes: number;
  readonly waitMs: number;
}

export type Call =
  | UpdateCall
  | LeaseCall
  | { readonly kind: 'get'; readonly queue: string; readonly pids: readonly string[] }
  | {
      readonly kind: 'peek';
      readonly queue: string;
      readonly what: 'head' | 'leased' | 'delayed';
      readonly limit: number;
    }
  | { readonly kind: 'stats'; readonly queues: readonly string[] }
  | { readonly kind: 'list' }
  | { readonly kind: 'delete'; readonly queue: string }
  | { readonly kind: 'reset'; readonly queue: string };

export type CallOf<Kind extends Call['kind']> = Extract<Call, { kind: Kind }>;

export interface LeasedReply {
  readonly queue: string;
  readonly pid: string;
  readonly data: string;
  readonly token: number;
  readonly until: number;
  readonly attempt: number;
  readonly enqueuedAt: number;
}

export interface ShownTask {
  readonly pid: string;
  /** undefined: there is no such task. */
  readonly state:
    | undefined
    | {
        readonly kind: 'available' | 'leased' | 'delayed';
        readonly until: number | undefined;
        readonly attempts: number;
        readonly token: number;
        readonly enqueuedAt: number;
      };
  readonly data: string | undefined;
}

export interface CountsReply {
  readonly queue: string;
  readonly available: number;
  readonly leased: number;
  readonly delayed: number;
  readonly completed: number;
}

export interface RefusedItemReply {
  readonly kind: 'enqueue' | 'dequeue' | 'renew' | 'release';
  readonly index: number;
  readonly reason: string;
}

export type Outcome =
  | {
      readonly kind: 'updated';
      readonly enqueued: readonly {
        readonly pid: string;
        readonly result: 'created' | 'collapsed' | 'replaced';
        /** Whether the task that was there is leased, where somebody compares it. */
        readonly leased?: boolean;
      }[];
      readonly renewed: readonly { readonly until: number }[];
      readonly released: readonly {
        readonly until: number | undefined;
        readonly deadLetterQueue: string | undefined;
      }[];
    }
  | {
      readonly kind: 'leased';
      readonly tasks: readonly LeasedReply[];
      /** The node was stopping: a wait that ends early says nothing about the queues. */
      readonly dismissed: boolean;
    }
  | { readonly kind: 'shown'; readonly tasks: readonly ShownTask[] }
  | { readonly kind: 'counts'; readonly queues: readonly CountsReply[] }
  | { readonly kind: 'number'; readonly tasks: number }
  /** Changed nothing. */
  | { readonly kind: 'refused'; readonly reason: string; readonly items: readonly RefusedItemReply[] }
  /** Nobody knows: the node crashed, or the answer was lost. It took effect once, or not at all. */
  | { readonly kind: 'unknown' };

/** One call, once its outcome is known. `seq` numbers calls and outcomes in the order in which they happened. */
export interface HistoryEvent<C extends Call = Call, O extends Outcome = Outcome> {
  readonly id: number;
  readonly call: C;
  readonly calledAt: number;
  readonly calledSeq: number;
  readonly outcome: O;
  readonly endedAt: number;
  readonly endedSeq: number;
  /** The caller gave up before the end. */
  readonly hungUp: boolean;
}

interface OpenCall {
  readonly id: number;
  readonly call: Call;
  readonly calledAt: number;
  readonly calledSeq: number;
  hungUp: boolean;
}

/** One recorded call that is under way. */
export interface Recording {
  /** The first outcome counts; returns it. */
  end(outcome: Outcome, at: number): Outcome;
  /** The caller gives up. */
  hangUp(): void;
}

/** Records calls and outcomes as they happen. */
export class History {
  readonly #events: HistoryEvent[] = [];
  readonly #open = new Map<number, OpenCall>();
  #seq = 0;

  /** Ended calls, in the order in which they were made. Open calls are not in it. */
  get events(): readonly HistoryEvent[] {
    return this.#events.toSorted((a, b) => a.id - b.id);
  }

  /** The number that the next call or outcome will have. */
  get seq(): number {
    return this.#seq;
  }

  get openCalls(): readonly OpenCall[] {
    return [...this.#open.values()];
  }

  begin(call: Call, at: number): Recording {
    const id = this.#seq++;
    const open: OpenCall = { id, call, calledAt: at, calledSeq: id, hungUp: false };
    this.#open.set(id, open);
    return {
      end: (outcome, endedAt) => {
        if (!this.#open.delete(id)) return { kind: 'unknown' };
        this.#events.push({ ...open, outcome, endedAt, endedSeq: this.#seq++ });
        return outcome;
      },
      hangUp: () => {
        open.hungUp = true;
      },
    };
  }

  /** The node died: of every open call nobody knows the outcome. */
  crash(at: number): void {
    for (const open of this.#open.values()) {
      this.#events.push({ ...open, outcome: { kind: 'unknown' }, endedAt: at, endedSeq: this.#seq++ });
    }
    this.#open.clear();
  }
}

/** One line an event, in the order of the calls, for people. */
export function showHistory(events: readonly HistoryEvent[]): string {
  const start = Math.min(...events.map(({ calledAt }) => calledAt));
  const since = (at: number): string => `+${at - start}`;
  const shorten = (text: string): string => text.replace(/(\.{4})\.+/g, '$1');
  return events
    .toSorted((a, b) => a.calledSeq - b.calledSeq)
    .map(({ id, call, calledAt, calledSeq, outcome, endedAt, endedSeq }) => {
      const { kind, ...rest } = call;
      const { kind: ending, ...result } = outcome;
      const span = `${since(calledAt)}..${since(endedAt)} (${calledSeq}..${endedSeq})`;
      return shorten(`#${id} ${span} ${kind} ${show(rest, start)} → ${ending} ${show(result, start)}`);
    })
    .join('\n');
}

/** Instants as distances from the start, empty things left out. */
function show(value: object, start: number): string {
  return JSON.stringify(value, (key, part: unknown) => {
    if (Array.isArray(part) && part.length === 0) return undefined;
    if (part === false) return undefined;
    const isInstant = key === 'until' || key === 'enqueuedAt';
    return isInstant && typeof part === 'number' ? `+${part - start}` : part;
  });
}
