import { OrderedSet } from '@js-sdsl/ordered-set';
import type { Pid } from '../../domain/ids.ts';
import type { TaskState } from '../../domain/task.ts';
import { FIRST_PID } from '../../log/queue-ledger.ts';
import { PayloadSlabs } from './payload-slabs.ts';

/** A task in memory; its payload may not be. */
export interface CachedTask {
  readonly state: TaskState;
  readonly data: Uint8Array | undefined;
}

/** Memory of a cached task beside its PID and payload: objects, map node, state. Measured on Node 24. */
const TASK_OVERHEAD_BYTES = 400;
/** Of a cache that holds few tasks, beside those. Measured on Node 24. */
const CACHE_OVERHEAD_BYTES = 2_000;

/** An available task in its place; without a task, what is sought. */
interface Place {
  pid: Pid;
  task: CachedTask | undefined;
}

/** An available task. */
interface ReadyTask extends Place {
  task: CachedTask;
}

const compare = (a: Place, b: Place): number => (a.pid < b.pid ? -1 : a.pid > b.pid ? 1 : 0);

const isTask = (place: Place): place is ReadyTask => place.task !== undefined;

/** Looked at only during the search: one serves all. */
const sought: Place = { pid: FIRST_PID, task: undefined };

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
  *head(): Generator<Readonly<ReadyTask>> {
    // Not `for of` over the set, which would copy all of it first.
    const at = this.#ready.begin();
    for (const end = this.#ready.end(); !at.equals(end); at.next()) if (isTask(at.pointer)) yield at.pointer;
  }

  hiddenTasks(): Iterable<[Pid, TaskState]> {
    return this.#hidden ?? [];
  }

  /** Notes a task that is available now. Ignored beyond `firstMissing`, where knowledge has gaps anyway. */
  putReady(pid: Pid, task: CachedTask): void {
    if (!this.knowsReadyUpTo(pid)) return;
    // First: it may be the same payload.
    const data = task.data && this.#payloads.keep(task.data);
    const kept = data === task.data ? task : { state: task.state, data };
    // Most are new, and then this is the only search.
    const before = this.#ready.size();
    if (this.#ready.insert({ pid, task: kept }) > before) {
      this.#taskBytes += costOf(pid);
      return;
    }
    const known = this.#find(pid);
    if (known?.task?.data) this.#payloads.drop(known.task.data);
    if (known) known.task = kept;
  }

  putHidden(pid: Pid, state: TaskState): void {
    this.#hidden ??= new Map();
    if (!this.#hidden.has(pid)) this.#taskBytes += costOf(pid);
    this.#hidden.set(pid, state);
  }

  removeReady(pid: Pid): void {
    const at = this.#ready.find(keyOf(pid));
    if (!at.isAccessible()) return;
    const data = at.pointer.task?.data;
    this.#taskBytes -= costOf(pid);
    if (data) this.#payloads.drop(data);
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
