import { OrderedSet } from '@js-sdsl/ordered-set';
import type { Pid } from '../../domain/ids.ts';
import { AVAILABLE, type TaskState } from '../../domain/task.ts';
import { FIRST_PID } from '../../log/queue-ledger.ts';
import { type Kept, PayloadSlabs, payloadIn } from './payload-slabs.ts';

/** A task in memory; its payload may not be. */
export interface CachedTask {
  readonly state: TaskState;
  readonly data: Uint8Array | undefined;
}

/** Memory of a cached task beside its PID and payload: objects, map node, state. Measured on Node 24. */
const TASK_OVERHEAD_BYTES = 260;
/** Of a cache that holds few tasks, beside those. Measured on Node 24. */
const CACHE_OVERHEAD_BYTES = 2_000;

const NO_DATA = new Uint8Array(0);

/** An available task in its place. One flat object: there are hundreds of thousands, and V8 marks every one. */
class Place implements Kept {
  pid: Pid;
  state: TaskState;
  slab: Kept['slab'];
  at = 0;

  constructor(pid: Pid, state: TaskState) {
    this.pid = pid;
    this.state = state;
    this.slab = undefined;
  }

  /** Made for each who asks. */
  get task(): CachedTask {
    const { dataBytes } = this.state;
    return { state: this.state, data: dataBytes === 0 ? NO_DATA : payloadIn(this, dataBytes) };
  }
}

type ReadyTask = Readonly<Pick<Place, 'pid' | 'state' | 'task'>>;

const compare = (a: Place, b: Place): number => (a.pid < b.pid ? -1 : a.pid > b.pid ? 1 : 0);

const NO_STATE: TaskState = {
  enqueuedAt: 0 as TaskState['enqueuedAt'],
  dataBytes: 0,
  attempts: 0,
  token: 0 as TaskState['token'],
  retry: undefined,
  visibility: AVAILABLE,
};

/** What is sought; looked at only during the search: one serves all. */
const sought = new Place(FIRST_PID, NO_STATE);

function keyOf(pid: Pid): Place {
  sought.pid = pid;
  return sought;
}

/**
 * What is in memory of one queue's tasks (the paper, 5.4).
 *
 *  H1  Every available task with a PID below `firstMissing` is in `ready`.
 *  H2  `firstMissing` is undefined only when every available task is in `ready`.
 *  H3  `hidden` holds some of the hidden tasks, without their payloads: nothing is pinned (5.4.3).
 * Eviction keeps H1 by lowering `firstMissing`, never by leaving a gap.
 */
export class QueueCache {
  /** A set, for the iterators of the library's map make a proxy for each step. */
  readonly #ready = new OrderedSet<Place>([], compare);
  #hidden: Map<Pid, TaskState> | undefined;
  readonly #payloads = new PayloadSlabs();
  #firstMissing: Pid | undefined;
  /** Without the payloads. */
  #taskBytes = 0;

  constructor(firstMissing: Pid | undefined) {
    this.#firstMissing = firstMissing;
  }

  /** What the tasks known here keep in memory. Without any the cache is not worth its place, and counts for nothing. */
  get bytes(): number {
    return this.#taskBytes === 0 ? 0 : CACHE_OVERHEAD_BYTES + this.#heldBytes;
  }

  get #heldBytes(): number {
    return this.#taskBytes + this.#payloads.bytes;
  }

  get readyCount(): number {
    return this.#ready.size();
  }

  get hiddenCount(): number {
    return this.#hidden?.size ?? 0;
  }

  get firstMissing(): Pid | undefined {
    return this.#firstMissing;
  }

  /** The lowest PID known to be available. */
  get firstReady(): Pid | undefined {
    return this.#ready.front()?.pid;
  }

  /** Whether all available tasks with PIDs up to `pid` are in memory; without `pid`, all available tasks. */
  knowsReadyUpTo(pid: Pid | undefined): boolean {
    return this.#firstMissing === undefined || (pid !== undefined && pid < this.#firstMissing);
  }

  ready(pid: Pid): CachedTask | undefined {
    return this.#find(pid)?.task;
  }

  hidden(pid: Pid): TaskState | undefined {
    return this.#hidden?.get(pid);
  }

  /** Available tasks in order, from the head. The cache must not change meanwhile. */
  *head(): Generator<ReadyTask> {
    // Not `for of` over the set, which would copy all of it first.
    const at = this.#ready.begin();
    for (const end = this.#ready.end(); !at.equals(end); at.next()) yield at.pointer;
  }

  hiddenTasks(): Iterable<[Pid, TaskState]> {
    return this.#hidden ?? [];
  }

  /** Notes a task that is available now. Ignored beyond `firstMissing`, where knowledge has gaps anyway. */
  putReady(pid: Pid, task: CachedTask): void {
    if (!this.knowsReadyUpTo(pid)) return;
    const place = new Place(pid, task.state);
    // Most are new, and then this is the only search.
    const before = this.#ready.size();
    const isNew = this.#ready.insert(place) > before;
    const known = isNew ? place : this.#find(pid);
    if (isNew) this.#taskBytes += costOf(pid);
    if (known === undefined) return;
    known.state = task.state;
    this.#payloads.drop(known);
    if (task.data) this.#payloads.keep(task.data, known);
  }

  putHidden(pid: Pid, state: TaskState): void {
    this.#hidden ??= new Map();
    if (!this.#hidden.has(pid)) this.#taskBytes += costOf(pid);
    this.#hidden.set(pid, state);
  }

  removeReady(pid: Pid): void {
    const at = this.#ready.find(keyOf(pid));
    if (!at.isAccessible()) return;
    this.#taskBytes -= costOf(pid);
    this.#payloads.drop(at.pointer);
    this.#ready.eraseElementByIterator(at);
  }

  removeHidden(pid: Pid): void {
    if (this.#hidden?.delete(pid)) this.#taskBytes -= costOf(pid);
  }

  /** A refill has read everything below `firstMissing`. */
  extendTo(firstMissing: Pid | undefined): void {
    this.#firstMissing = firstMissing;
  }

  /** Frees about so many bytes: hidden tasks first, oldest first, then the available ones furthest from the head. */
  shed(bytes: number): void {
    const target = Math.max(0, this.#heldBytes - bytes);
    for (const pid of this.#hidden?.keys() ?? []) {
      if (this.#heldBytes <= target) return;
      this.removeHidden(pid);
    }
    for (let last = this.#ready.back(); last && this.#heldBytes > target; last = this.#ready.back()) {
      const { pid } = last;
      this.removeReady(pid);
      this.#firstMissing = pid;
    }
  }

  #find(pid: Pid): Place | undefined {
    const at = this.#ready.find(keyOf(pid));
    return at.isAccessible() ? at.pointer : undefined;
  }
}

const costOf = (pid: Pid): number => TASK_OVERHEAD_BYTES + pid.length;
