/*
 * The calls and replies of the callers of one node or cluster, in order of time. Load and tests record histories, and
 * `history-checker.ts` checks them.
 *
 * Bytes are latin1 text, so that histories are easy to print and compare. Instants are in ms of the node's clock.
 */

export interface RetryCall {
  readonly maxAttempts: number;
  readonly backoffInitialMs: number;
  readonly backoffMaxMs: number;
  /** Name without the group; empty: the default dead-letter queue. */
  readonly deadLetterQueue: string;
}

export interface EnqueueCall {
  /** Set if it is a part of a publication to this topic, which has one for each queue, one behind the other. */
  readonly topic?: string | undefined;
  readonly queue: string;
  /** Undefined: the node assigns the next FIFO PID. */
  readonly pid: string | undefined;
  /** Unique within the history: it identifies the enqueue that created a task. */
  readonly data: string;
  /** Undefined: the PID is the identity. */
  readonly key?: string | undefined;
  readonly mode: 'collapse' | 'fail' | 'replace' | 'rerun' | 'rerun-first';
  readonly delayMs: number;
  readonly retry: RetryCall | undefined;
  /** Undefined: as the settings say. */
  readonly timeLimitMs?: number | undefined;
  /** Undefined: it may start at any time. */
  readonly startWithinMs?: number | undefined;
  /** Undefined: limits of keys do not count it. */
  readonly limitKey?: string | undefined;
  /** Undefined: it has none. */
  readonly kind?: string | undefined;
  /** Undefined: it is in no order. */
  readonly orderKey?: string | undefined;
}

export interface TaskCall {
  readonly queue: string;
  /** Empty if the key names the task. */
  readonly pid: string;
  readonly key?: string;
  readonly token: number | undefined;
}

export interface DequeueCall extends TaskCall {
  /** True: the task goes back from a dead-letter queue to the queue that it came from. */
  readonly requeue?: boolean;
  /** Undefined: the task leaves no result. */
  readonly result?: string | undefined;
  /** True: the task is cancelled. It then names no token. */
  readonly cancel?: boolean;
}

export interface ReleaseCall extends TaskCall {
  readonly delayMs: number | undefined;
  readonly refund: boolean;
  /** True: the refunded attempt was interrupted. */
  readonly interrupted?: boolean;
  /** Message of the error. */
  readonly error?: string | undefined;
  readonly deadLetter?: boolean;
  /** True: the task is not leased; it gets another delay. */
  readonly waiting?: boolean;
}

export interface UpdateCall {
  readonly kind: 'update';
  readonly enqueue: readonly EnqueueCall[];
  readonly dequeue: readonly DequeueCall[];
  readonly renew: readonly (TaskCall & {
    readonly leaseDurationMs: number;
    /** Undefined: it does not change. Empty: none. */
    readonly progress?: string | undefined;
    /** As in the protocol. */
    readonly begun?: number | undefined;
  })[];
  readonly release: readonly ReleaseCall[];
  readonly requestId: string | undefined;
}

export interface LeaseCall {
  readonly kind: 'lease';
  readonly queues: readonly string[];
  readonly maxTasks: number;
  readonly leaseDurationMs: number;
  readonly maxPid: string | undefined;
  readonly maxBytes: number;
  readonly waitMs: number;
  /** As in the protocol. */
  readonly starts?: { readonly now: number; readonly together: number } | undefined;
  /** As in the protocol. Undefined: all tasks. */
  readonly kinds?: readonly string[] | undefined;
}

export type Call =
  | UpdateCall
  | LeaseCall
  | {
      readonly kind: 'get';
      readonly queue: string;
      readonly pids: readonly string[];
      /** Shown behind the tasks of the PIDs. */
      readonly keys?: readonly string[];
    }
  | {
      readonly kind: 'peek';
      readonly queue: string;
      readonly what: 'head' | 'leased' | 'delayed';
      readonly limit: number;
    }
  /** Asks how tasks have ended, without a wait. */
  | { readonly kind: 'ends'; readonly queue: string; readonly pids: readonly string[] }
  | { readonly kind: 'stats'; readonly queues: readonly string[] }
  | { readonly kind: 'list' }
  | { readonly kind: 'delete'; readonly queue: string }
  | { readonly kind: 'reset'; readonly queue: string }
  /** Pauses the queues that match a pattern, or resumes them: the number is 1 if they were paused. */
  | { readonly kind: 'pause'; readonly queues: string; readonly isResume: boolean }
  /**
   * Limits the leased tasks of the queues that match a pattern, or those of each limit key that matches. 0 ends the limit: the
   * number is 1 if there was one.
   */
  | { readonly kind: 'limit'; readonly queues: string; readonly keys?: string | undefined; readonly maxLeased: number };

export type CallOf<Kind extends Call['kind']> = Extract<Call, { kind: Kind }>;

export interface LeasedReply {
  readonly queue: string;
  readonly pid: string;
  readonly data: string;
  readonly token: number;
  readonly until: number;
  readonly attempt: number;
  readonly enqueuedAt: number;
  /** 0: there is none. Undefined if the test does not compare it. */
  readonly timeLimitMs?: number;
  /** As in the protocol. */
  readonly unbegun?: number | undefined;
}

export interface ShownTask {
  readonly pid: string;
  /** Undefined: the task does not exist. */
  readonly state:
    | undefined
    | {
        readonly kind: 'available' | 'leased' | 'delayed';
        readonly until: number | undefined;
        readonly attempts: number;
        readonly token: number;
        readonly enqueuedAt: number;
        /** `attempt: message of the error`, or `attempt: expired`. Undefined if the test does not compare them. */
        readonly failures?: readonly string[];
        /** Name of the queue from which the task came to its dead-letter queue. */
        readonly origin?: string | undefined;
        readonly progress?: string | undefined;
        readonly isCancelled?: boolean;
        readonly interruptions?: number;
        readonly timeLimitMs?: number | undefined;
        readonly startBy?: number | undefined;
      };
  readonly data: string | undefined;
}

/** How a task has ended. */
export interface EndReply {
  readonly pid: string;
  /** Undefined: it is in its queue. */
  readonly outcome:
    | undefined
    | 'completed'
    | 'dead-lettered'
    | 'removed'
    | 'cancelled'
    | 'unknown'
    | 'cancel-requested'
    | 'lease-lost';
  readonly result: string | undefined;
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
        readonly result: 'created' | 'collapsed' | 'replaced' | 'rerun' | 'kept-out' | 'dropped';
        /** True if the existing task is leased; undefined if the test does not compare it. */
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
      /** True if the node was stopping: an empty answer then says nothing about the queues. */
      readonly dismissed: boolean;
    }
  | { readonly kind: 'shown'; readonly tasks: readonly ShownTask[] }
  | { readonly kind: 'ended'; readonly tasks: readonly EndReply[] }
  | { readonly kind: 'counts'; readonly queues: readonly CountsReply[] }
  | { readonly kind: 'number'; readonly tasks: number }
  /** The call changed nothing. */
  | { readonly kind: 'refused'; readonly reason: string; readonly items: readonly RefusedItemReply[] }
  /** The node crashed, or the answer was lost. The call took effect once or not at all. */
  | { readonly kind: 'unknown' };

/** One call with its outcome. `seq` numbers calls and outcomes in order of time. */
export interface HistoryEvent<C extends Call = Call, O extends Outcome = Outcome> {
  readonly id: number;
  readonly call: C;
  readonly calledAt: number;
  readonly calledSeq: number;
  readonly outcome: O;
  readonly endedAt: number;
  readonly endedSeq: number;
  /** True if the caller cancelled the call. */
  readonly hungUp: boolean;
}

interface OpenCall {
  readonly id: number;
  readonly call: Call;
  readonly calledAt: number;
  readonly calledSeq: number;
  hungUp: boolean;
}

/** One recorded call in progress. */
export interface Recording {
  /** Records the outcome and returns it. Only the first call counts. */
  end(outcome: Outcome, at: number): Outcome;
  /** Records that the caller cancels the call. */
  hangUp(): void;
}

/** Records calls and outcomes at the time when they happen. */
export class History {
  readonly #events: HistoryEvent[] = [];
  readonly #open = new Map<number, OpenCall>();
  #seq = 0;

  /** The calls with an outcome, in the order in which they were made. */
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

  /** The number of the oldest call without an outcome. Infinite if there is none. */
  get oldestOpenSeq(): number {
    for (const seq of this.#open.keys()) return seq;
    return Number.POSITIVE_INFINITY;
  }

  /** Removes the calls with an outcome and returns them, in the order of their outcomes. */
  take(): readonly HistoryEvent[] {
    return this.#events.splice(0);
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

  /** Call this when the node crashes: the outcome of every open call is unknown. */
  crash(at: number): void {
    for (const open of this.#open.values()) {
      this.#events.push({ ...open, outcome: { kind: 'unknown' }, endedAt: at, endedSeq: this.#seq++ });
    }
    this.#open.clear();
  }
}

/** The events as text, one line for each, in the order of the calls. */
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

/** JSON with instants relative to the start and without empty values. */
function show(value: object, start: number): string {
  return JSON.stringify(value, (key, part: unknown) => {
    if (Array.isArray(part) && part.length === 0) return undefined;
    if (part === false) return undefined;
    const isInstant = key === 'until' || key === 'enqueuedAt';
    return isInstant && typeof part === 'number' ? `+${part - start}` : part;
  });
}
