import type { Outcome, RetryCall } from '@taskmaster/client/testing/history';

/*
 * The state of all queues by the contract, as far as a caller can know it. Worlds are values: every change returns a new
 * world, so that a search can go back.
 */

/** An instant between `from` and `to`, both included. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

export const exactly = (at: number): Span => ({ from: at, to: at });
export const isExact = ({ from, to }: Span): boolean => from === to;
export const later = ({ from, to }: Span, ms: number): Span => ({ from: from + ms, to: to + ms });
export const contains = ({ from, to }: Span, at: number): boolean => from <= at && at <= to;

/** A lease token. A text is a token that no reply told. 0: never leased. */
type Token = number | string;

export interface ModelTask {
  readonly pid: string;
  readonly key: string | undefined;
  readonly data: string;
  readonly enqueuedAt: Span;
  readonly attempts: number;
  readonly token: Token;
  readonly retry: RetryCall | undefined;
  /** Undefined: the task is available. */
  readonly hidden: Hidden | undefined;
  /** As in `ShownTask`. */
  readonly failures: readonly string[];
  /** It was enqueued again since its latest lease began. */
  readonly rerun: boolean;
  /** It was cancelled while it was leased, and is removed after the lease unless it was enqueued again since. */
  readonly isCancelled: boolean;
  /** What a worker has reported last. */
  readonly progress: string | undefined;
  /** Where the task was before it came to this dead-letter queue. */
  readonly origin: { readonly queue: string; readonly retry: RetryCall | undefined } | undefined;
}

interface Hidden {
  readonly until: Span;
  /** Id of the event that leased it; undefined for a delay or a backoff. */
  readonly leasedBy: number | undefined;
}

export interface ModelQueue {
  readonly tasks: ReadonlyMap<string, ModelTask>;
  /** The largest PID that the queue has had. */
  readonly largest: string;
  /** Undefined: not known, because the statistics may have been dropped while the queue was empty. */
  readonly completed: number | undefined;
  /** When the last task was removed; undefined while the queue has tasks. */
  readonly emptySince: number | undefined;
}

const NO_QUEUE: ModelQueue = { tasks: new Map(), largest: '', completed: 0, emptySince: undefined };

/** What an ended task has left. */
export interface ModelEnd {
  readonly outcome: 'completed' | 'dead-lettered' | 'cancelled';
  readonly result: string | undefined;
  /** The earliest instant at which it can have been left. */
  readonly from: number;
  readonly epoch: number;
  /** False: it may not have been left, because the group may have kept no others. */
  readonly isSure: boolean;
}

export interface RecordedRequest {
  readonly outcome: Outcome;
  readonly at: Span;
}

export class World {
  /** The earliest instant at which the next change can have happened. */
  readonly time: number;
  /** How often the clock may have gone back. */
  readonly epoch: number;
  readonly #queues: Map<string, ModelQueue>;
  readonly #requests: Map<string, RecordedRequest>;
  /** By queue and PID. */
  readonly #ends: Map<string, ModelEnd>;
  /** Groups of which tasks have left their ends. */
  readonly #keeping: Set<string>;
  /** By event: the progress of an event with several steps. */
  readonly #progress: Map<number, string>;

  constructor(from?: World, time = from?.time ?? 0, epoch = from?.epoch ?? 0) {
    this.time = time;
    this.epoch = epoch;
    this.#queues = new Map(from ? from.#queues : []);
    this.#requests = new Map(from ? from.#requests : []);
    this.#ends = new Map(from ? from.#ends : []);
    this.#keeping = new Set(from ? from.#keeping : []);
    this.#progress = new Map(from ? from.#progress : []);
  }

  /** The same world at a later time. */
  at(time: number, epoch: number): World {
    return time === this.time && epoch === this.epoch ? this : new World(this, time, epoch);
  }

  queue(name: string): ModelQueue {
    return this.#queues.get(name) ?? NO_QUEUE;
  }

  get queueNames(): string[] {
    return [...this.#queues.keys()];
  }

  task(queue: string, pid: string): ModelTask | undefined {
    return this.queue(queue).tasks.get(pid);
  }

  /** In order of their PIDs. */
  tasks(queue: string): ModelTask[] {
    return [...this.queue(queue).tasks.values()].sort((a, b) => (a.pid < b.pid ? -1 : 1));
  }

  available(queue: string): ModelTask[] {
    return this.tasks(queue).filter(({ hidden }) => hidden === undefined);
  }

  /** True if the queue and its statistics may have been dropped, because it was empty for `retentionMs`. */
  mayBeForgotten(name: string, retentionMs: number): boolean {
    const { emptySince } = this.queue(name);
    return emptySince !== undefined && this.time - emptySince >= retentionMs;
  }

  put(name: string, task: ModelTask, retentionMs: number): World {
    const queue = this.queue(name);
    const forgotten = this.mayBeForgotten(name, retentionMs);
    const largest = forgotten ? '' : queue.largest;
    const isLarger = task.pid > largest;
    return this.#with(name, {
      tasks: new Map(queue.tasks).set(task.pid, task),
      largest: isLarger ? task.pid : largest,
      completed: forgotten ? undefined : queue.completed,
      emptySince: undefined,
    });
  }

  remove(name: string, pid: string, isCompleted: boolean): World {
    const queue = this.queue(name);
    const tasks = new Map(queue.tasks);
    tasks.delete(pid);
    const completed = queue.completed === undefined ? undefined : queue.completed + (isCompleted ? 1 : 0);
    return this.#with(name, { ...queue, tasks, completed, emptySince: tasks.size === 0 ? this.time : undefined });
  }

  deleteQueue(name: string): World {
    const next = new World(this);
    next.#queues.delete(name);
    return next;
  }

  end(queue: string, pid: string): ModelEnd | undefined {
    return this.#ends.get(endKey(queue, pid));
  }

  /** The ends that tasks of the group of a queue have left. */
  endsOfGroup(queue: string): ModelEnd[] {
    return [...this.#ends].filter(([key]) => key.startsWith(groupKey(queue))).map(([, end]) => end);
  }

  /** False: no task of the group of the queue has ever left its end. */
  mayKeepEnds(queue: string): boolean {
    return this.#keeping.has(groupKey(queue));
  }

  /** Undefined: the task leaves nothing, and what an earlier one left goes. */
  withEnd(queue: string, pid: string, end: ModelEnd | undefined): World {
    if (end === undefined && !this.#ends.has(endKey(queue, pid))) return this;
    const next = new World(this);
    if (end === undefined) next.#ends.delete(endKey(queue, pid));
    else {
      next.#ends.set(endKey(queue, pid), end);
      next.#keeping.add(groupKey(queue));
    }
    return next;
  }

  request(id: string): RecordedRequest | undefined {
    return this.#requests.get(id);
  }

  record(id: string, outcome: Outcome, at: Span): World {
    const next = new World(this);
    next.#requests.set(id, { outcome, at });
    return next;
  }

  progress(event: number): string | undefined {
    return this.#progress.get(event);
  }

  withProgress(event: number, progress: string | undefined): World {
    const next = new World(this);
    if (progress === undefined) next.#progress.delete(event);
    else next.#progress.set(event, progress);
    return next;
  }

  /** True if a caller cannot distinguish the queues of the two worlds. */
  isLike(other: World): boolean {
    if (this.#queues.size !== other.#queues.size || endsKey(this.#ends) !== endsKey(other.#ends)) return false;
    return [...this.#queues].every(([name, queue]) => {
      const theirs = other.#queues.get(name);
      return theirs === queue || (theirs !== undefined && keyOf(theirs) === keyOf(queue));
    });
  }

  /** Equal for worlds that a caller cannot distinguish. */
  get key(): string {
    const queues = [...this.#queues].map(([name, queue]) => `${name}${keyOf(queue)}`).sort();
    const progress = [...this.#progress].map(([event, sofar]) => `${event}${sofar}`).sort();
    return [
      this.time,
      this.epoch,
      endsKey(this.#ends),
      ...queues,
      ...[...this.#requests.keys()].sort(),
      ...progress,
    ].join('\n');
  }

  #with(name: string, queue: ModelQueue): World {
    const next = new World(this);
    next.#queues.set(name, queue);
    return next;
  }
}

/** The group of a queue, as `endKey` begins. */
const groupKey = (queue: string): string => queue.slice(0, queue.indexOf('#') + 1) || '#';

/** Begins with the group; the default group is empty. */
const endKey = (queue: string, pid: string): string => `${queue.includes('#') ? queue : `#${queue}`} ${pid}`;

const endsKey = (ends: ReadonlyMap<string, ModelEnd>): string => JSON.stringify([...ends].sort());

/** Cached by queue, because worlds share most of their queues. */
const keys = new WeakMap<ModelQueue, string>();

function keyOf(queue: ModelQueue): string {
  let key = keys.get(queue);
  if (key === undefined) {
    const tasks = [...queue.tasks.values()].map((task) => JSON.stringify(task)).sort();
    key = JSON.stringify([queue.largest, queue.completed, queue.emptySince, tasks]);
    keys.set(queue, key);
  }
  return key;
}
