import type { Outcome, RetryCall } from '@taskmaster/cli/testing/history';

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
  /** Its own. Undefined: that of the settings. */
  readonly timeLimitMs: number | undefined;
  /** From then on it does not start any more. Undefined: it may start at any time, or it has started. */
  readonly startBy: Span | undefined;
  /** Undefined: the task is available. */
  readonly hidden: Hidden | undefined;
  /** As in `ShownTask`. */
  readonly failures: readonly string[];
  /** It was enqueued again since its latest lease began. */
  readonly rerun: boolean;
  /** It was cancelled while it was leased, and is removed after the lease unless it was enqueued again since. */
  readonly isCancelled: boolean;
  readonly interruptions: number;
  /** As in the engine. */
  readonly suspicion: number;
  /** What a worker has reported last. */
  readonly progress: string | undefined;
  /** Where the task was before it came to this dead-letter queue. */
  readonly origin: ModelOrigin | undefined;
  /** A dead letter keeps it for the way back. */
  readonly orderKey: string | undefined;
  readonly limitKey: string | undefined;
  readonly kind: string | undefined;
  /** Its place among the tasks of the queue with its order key. Undefined: it is in no order. */
  readonly place: number | undefined;
  /** Set: another one is before it. From then on it is available when none is. */
  readonly parked: Span | undefined;
}

interface ModelOrigin {
  readonly queue: string;
  readonly pid: string;
  readonly retry: RetryCall | undefined;
  /** When its last attempt ended. */
  readonly at: Span;
}

interface Hidden {
  readonly until: Span;
  /** When the lease began. Undefined: it is none. */
  readonly since?: Span;
  /** Whether it lasts until its time limit. Undefined: it is not known. */
  readonly isFull?: boolean | undefined;
  /** As in the engine. Undefined: 0. */
  readonly suspects?: number;
  /** Id of the event that leased it; undefined for a delay or a backoff. */
  readonly leasedBy: number | undefined;
}

interface QueueState {
  readonly tasks: ReadonlyMap<string, ModelTask>;
  /** The largest PID that the queue has had. */
  readonly largest: string;
  /** Undefined: not known, because the statistics may have been dropped while the queue was empty. */
  readonly completed: number | undefined;
  /** When the last task was removed; undefined while the queue has tasks. */
  readonly emptySince: number | undefined;
}

/** What is derived from a queue is kept, because worlds share most of their queues, and a search compares many worlds. */
class ModelQueue {
  readonly state: QueueState;
  #inOrder: readonly ModelTask[] | undefined;
  #leased: number | undefined;

  constructor(state: QueueState) {
    this.state = state;
  }

  /** In order of their PIDs. */
  get inOrder(): readonly ModelTask[] {
    this.#inOrder ??= [...this.state.tasks.values()].sort((a, b) => (a.pid < b.pid ? -1 : 1));
    return this.#inOrder;
  }

  get leased(): number {
    this.#leased ??= this.inOrder.filter(({ hidden }) => hidden?.leasedBy !== undefined).length;
    return this.#leased;
  }

  /** Equal for queues that a caller cannot distinguish. */
  numberIn(numbers: Numbers): number {
    const { largest, completed, emptySince } = this.state;
    const tasks = (): number[] => this.inOrder.map((task) => numbers.of(task));
    return numbers.of(this, () => [largest, completed, emptySince, ...tasks()].join());
  }
}

/**
 * Numbers of the values in the worlds of one search: equal values have one number, which is compared instead of their text.
 * Worlds share most of their values, so the number of each is kept.
 */
class Numbers {
  readonly #ofTexts = new Map<string, number>();
  readonly #ofValues = new WeakMap<object, number>();

  of(value: object, textOf = (): string => JSON.stringify(value)): number {
    const known = this.#ofValues.get(value);
    if (known !== undefined) return known;
    const number = this.#ofText(textOf());
    this.#ofValues.set(value, number);
    return number;
  }

  #ofText(text: string): number {
    const known = this.#ofTexts.get(text);
    if (known !== undefined) return known;
    const number = this.#ofTexts.size;
    this.#ofTexts.set(text, number);
    return number;
  }
}

const derivations = new WeakMap<ModelTask, Map<string, ModelTask>>();

/**
 * The task that `make` makes of this one, and the same one each time for one `how`. Searches make most tasks again and again, and
 * compare them.
 */
export function derived(task: ModelTask, how: string, make: () => ModelTask): ModelTask {
  let made = derivations.get(task);
  if (made === undefined) {
    made = new Map();
    derivations.set(task, made);
  }
  let known = made.get(how);
  if (known === undefined) {
    known = make();
    made.set(how, known);
  }
  return known;
}

const NO_QUEUE = new ModelQueue({ tasks: new Map(), largest: '', completed: 0, emptySince: undefined });

/** What an ended task has left. */
export interface ModelEnd {
  readonly outcome: 'completed' | 'dead-lettered' | 'cancelled';
  readonly result: string | undefined;
  /** The earliest instant at which it can have been left. */
  readonly from: number;
  readonly epoch: number;
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
  // Shared with other worlds. A change replaces the one that it concerns.
  #queues: ReadonlyMap<string, ModelQueue>;
  #requests: ReadonlyMap<string, RecordedRequest>;
  /** By queue and PID. */
  #ends: ReadonlyMap<string, ModelEnd>;
  readonly #numbers: Numbers;
  /** Patterns of paused queues: names, and `g#*` for a group. */
  #paused: ReadonlySet<string>;
  /** By pattern: how many tasks of its queues may be leased. */
  #limits: ReadonlyMap<string, number>;
  /** By event: the progress of an event with several steps. */
  #progress: ReadonlyMap<number, string>;
  #likeness: string | undefined;

  constructor(from?: World, time = from?.time ?? 0, epoch = from?.epoch ?? 0) {
    this.time = time;
    this.epoch = epoch;
    this.#queues = from ? from.#queues : new Map();
    this.#requests = from ? from.#requests : new Map();
    this.#ends = from ? from.#ends : new Map();
    this.#numbers = from ? from.#numbers : new Numbers();
    this.#paused = from ? from.#paused : new Set();
    this.#limits = from ? from.#limits : new Map();
    this.#progress = from ? from.#progress : new Map();
  }

  /** The same world at a later time. */
  at(time: number, epoch: number): World {
    if (time === this.time && epoch === this.epoch) return this;
    const next = new World(this, time, epoch);
    next.#likeness = this.#likeness;
    return next;
  }

  queue(name: string): QueueState {
    return this.#queueOf(name).state;
  }

  get queueNames(): string[] {
    return [...this.#queues.keys()];
  }

  task(queue: string, pid: string): ModelTask | undefined {
    return this.queue(queue).tasks.get(pid);
  }

  /** In order of their PIDs. */
  tasks(queue: string): readonly ModelTask[] {
    return this.#queueOf(queue).inOrder;
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

  /** `now`: when that happens, if it is known better than by the time of this world. */
  remove(name: string, pid: string, isCompleted: boolean, now = this.time): World {
    const queue = this.queue(name);
    const tasks = new Map(queue.tasks);
    tasks.delete(pid);
    const next = nextInOrder(tasks.values(), queue.tasks.get(pid));
    if (next?.parked !== undefined) tasks.set(next.pid, unparked(next, next.parked, now));
    const completed = queue.completed === undefined ? undefined : queue.completed + (isCompleted ? 1 : 0);
    return this.#with(name, { ...queue, tasks, completed, emptySince: tasks.size === 0 ? this.time : undefined });
  }

  deleteQueue(name: string): World {
    const next = new World(this);
    next.#queues = without(this.#queues, name);
    return next;
  }

  end(queue: string, pid: string): ModelEnd | undefined {
    return this.#ends.get(endKey(queue, pid));
  }

  /** Undefined: the task leaves nothing, and what an earlier one left goes. */
  withEnd(queue: string, pid: string, end: ModelEnd | undefined): World {
    if (end === undefined && !this.#ends.has(endKey(queue, pid))) return this;
    const next = new World(this);
    if (end === undefined) next.#ends = without(this.#ends, endKey(queue, pid));
    else next.#ends = new Map(this.#ends).set(endKey(queue, pid), end);
    return next;
  }

  request(id: string): RecordedRequest | undefined {
    return this.#requests.get(id);
  }

  record(id: string, outcome: Outcome, at: Span): World {
    const next = new World(this);
    next.#requests = new Map(this.#requests).set(id, { outcome, at });
    return next;
  }

  get paused(): ReadonlySet<string> {
    return this.#paused;
  }

  isPaused(queue: string): boolean {
    return patternsOf(queue).some((pattern) => this.#paused.has(pattern));
  }

  withPause(queues: string, isPaused: boolean): World {
    if (this.#paused.has(queues) === isPaused) return this;
    const next = new World(this);
    next.#paused = isPaused
      ? new Set(this.#paused).add(queues)
      : new Set([...this.#paused].filter((one) => one !== queues));
    return next;
  }

  hasLimit(limit: string): boolean {
    return this.#limits.has(limit);
  }

  /** The limits of a queue. */
  limitsOf(queue: string): string[] {
    return this.#limits.size === 0 ? [] : patternsOf(queue).filter((limit) => this.#limits.has(limit));
  }

  /** The limits of the keys of a queue. */
  keyLimitsOf(queue: string): string[] {
    return this.#limits.size === 0
      ? []
      : patternsOf(queue)
          .map(keyLimit)
          .filter((limit) => this.#limits.has(limit));
  }

  /** How many tasks a limit still allows to lease: of a key, if it is one of keys. A lease counts until a search has ended it. */
  room(limit: string, key?: string): number {
    return (this.#limits.get(limit) ?? Number.POSITIVE_INFINITY) - this.#leasedUnder(limit, key);
  }

  /** These queues, and all that share a limit with one of them. */
  withSharing(queues: readonly string[]): string[] {
    const limits = new Set(queues.flatMap((queue) => [...this.limitsOf(queue), ...this.keyLimitsOf(queue)]));
    if (limits.size === 0) return [...queues];
    const sharing = this.queueNames.filter((queue) =>
      patternsOf(queue).some((pattern) => limits.has(pattern) || limits.has(keyLimit(pattern))),
    );
    return [...new Set([...queues, ...sharing])];
  }

  /** `maxLeased` 0: without a limit. */
  withLimit(limit: string, maxLeased: number): World {
    if ((this.#limits.get(limit) ?? 0) === maxLeased) return this;
    const next = new World(this);
    next.#limits = maxLeased === 0 ? without(this.#limits, limit) : new Map(this.#limits).set(limit, maxLeased);
    return next;
  }

  #leasedUnder(limit: string, key: string | undefined): number {
    const isOf = (pattern: string): boolean => (key === undefined ? pattern : keyLimit(pattern)) === limit;
    const queues = this.queueNames.filter((queue) => patternsOf(queue).some(isOf));
    if (key === undefined) return queues.reduce((sum, queue) => sum + this.#queueOf(queue).leased, 0);
    const ofKey = queues.flatMap((queue) => this.tasks(queue).filter(({ limitKey }) => limitKey === key));
    return ofKey.filter(({ hidden }) => hidden?.leasedBy !== undefined).length;
  }

  progress(event: number): string | undefined {
    return this.#progress.get(event);
  }

  withProgress(event: number, progress: string | undefined): World {
    const next = new World(this);
    if (progress === undefined) next.#progress = without(this.#progress, event);
    else next.#progress = new Map(this.#progress).set(event, progress);
    return next;
  }

  /** Equal for worlds whose queues a caller cannot distinguish. */
  get likeness(): string {
    this.#likeness ??= [
      this.#numbers.of(this.#ends, () => sorted(this.#ends, ([ended, end]) => `${ended} ${this.#numbers.of(end)}`)),
      this.#numbers.of(this.#paused, () => sorted(this.#paused, (pattern) => pattern)),
      this.#numbers.of(this.#limits, () => sorted(this.#limits, ([limit, most]) => `${limit} ${most}`)),
      sorted(this.#queues, ([name, queue]) => `${name} ${queue.numberIn(this.#numbers)}`),
    ].join();
    return this.#likeness;
  }

  /** Equal for worlds that a caller cannot distinguish. */
  get key(): string {
    const requests = sorted(this.#requests.keys(), (id) => id);
    const progress = sorted(this.#progress, ([event, sofar]) => `${event}${sofar}`);
    return [this.time, this.epoch, this.likeness, requests, progress].join('\n');
  }

  /** Equal for worlds that are equal, also in what was recorded of requests. */
  get identity(): string {
    return `${this.key}\n${sorted(this.#requests, ([id, recorded]) => `${id} ${this.#numbers.of(recorded)}`)}`;
  }

  #with(name: string, state: QueueState): World {
    const next = new World(this);
    next.#queues = new Map(this.#queues).set(name, new ModelQueue(state));
    return next;
  }

  #queueOf(name: string): ModelQueue {
    return this.#queues.get(name) ?? NO_QUEUE;
  }
}

const sorted = <T>(values: Iterable<T>, textOf: (value: T) => string): string => [...values].map(textOf).sort().join();

/** The limit of each key of the queues that match a pattern. */
export const keyLimit = (pattern: string): string => `${pattern} by keys`;

/** The patterns of scenarios that match a queue: its name, and that of all queues of its group. */
export const patternsOf = (queue: string): string[] =>
  queue.includes('#') ? [queue, queue.replace(/#.*/, '#*')] : [queue];

/** Begins with the group; the default group is empty. */
const endKey = (queue: string, pid: string): string => `${queue.includes('#') ? queue : `#${queue}`} ${pid}`;

function without<K, V>(map: ReadonlyMap<K, V>, key: K): ReadonlyMap<K, V> {
  const rest = new Map(map);
  rest.delete(key);
  return rest;
}

/** The first one of those with the order key of a task. Undefined: there is none, or the task is in no order. */
function nextInOrder(tasks: Iterable<ModelTask>, gone: ModelTask | undefined): ModelTask | undefined {
  if (gone?.place === undefined) return undefined;
  let first: ModelTask | undefined;
  for (const task of tasks) {
    const { place, orderKey } = task;
    if (place === undefined || orderKey !== gone.orderKey) continue;
    if (first?.place === undefined || place < first.place) first = task;
  }
  return first;
}

/** The task when no other one is before it any more. */
const unparked = (task: ModelTask, due: Span, now: number): ModelTask =>
  derived(task, due.to <= now ? 'available in its order' : 'first in its order', () => ({
    ...task,
    parked: undefined,
    hidden: due.to <= now ? undefined : { until: due, leasedBy: undefined },
  }));
