import { latin1Of } from '../../domain/bytes.ts';
import type { Pid } from '../../domain/ids.ts';
import type { TaskLinks, TaskState } from '../../domain/task.ts';
import { PayloadSlabs } from './payload-slabs.ts';
import { type CachedTask, Place, Places } from './places.ts';

/** Memory of a cached task beside its PID and payload: objects, map node, state. Measured on Node 24. */
const TASK_OVERHEAD_BYTES = 260;
/** Memory of an entry of a history beside its texts, about. */
const HISTORY_OVERHEAD_BYTES = 100;
/** Memory of a cache with about twenty tasks, beside the tasks. It is less with fewer tasks. Measured on Node 24. */
const CACHE_OVERHEAD_BYTES = 1_000;
/** Up to this size, the payload of a queue's only task is kept as a string. Most queues have one task. */
const LONGEST_STRING_BYTES = 256;
/** Memory of a string beside its bytes. */
const STRING_OVERHEAD_BYTES = 16;

export type ReadyTask = Readonly<Pick<Place, 'pid' | 'state' | 'task'>>;

/**
 * The tasks of one queue that are in memory (the paper, 5.4).
 *
 *  H1  Every available task with a PID below `firstMissing` is in `ready`.
 *  H2  `firstMissing` is undefined only when every available task is in `ready`.
 *  H3  `hidden` holds some of the hidden tasks, without their payloads: nothing is pinned (5.4.3).
 * Eviction keeps H1 by lowering `firstMissing`, never by leaving a gap.
 */
export class QueueCache {
  readonly #ready = new Places();
  #hidden: Map<Pid, TaskState> | undefined;
  #payloads: PayloadSlabs | undefined;
  #firstMissing: Pid | undefined;
  /** Memory of all tasks, without payloads in slabs. */
  #taskBytes = 0;

  constructor(firstMissing: Pid | undefined) {
    this.#firstMissing = firstMissing;
  }

  /** Memory of the cache with its tasks; 0 without tasks. */
  get bytes(): number {
    return this.#taskBytes === 0 ? 0 : CACHE_OVERHEAD_BYTES + this.#heldBytes;
  }

  get #heldBytes(): number {
    return this.#taskBytes + (this.#payloads?.bytes ?? 0);
  }

  get readyCount(): number {
    return this.#ready.size;
  }

  get hiddenCount(): number {
    return this.#hidden?.size ?? 0;
  }

  get firstMissing(): Pid | undefined {
    return this.#firstMissing;
  }

  /** The lowest PID known to be available. */
  get firstReady(): Pid | undefined {
    return this.#ready.first?.pid;
  }

  /** True if all available tasks with PIDs up to `pid` are in memory; without `pid`, if all available tasks are. */
  knowsReadyUpTo(pid: Pid | undefined): boolean {
    return this.#firstMissing === undefined || (pid !== undefined && pid < this.#firstMissing);
  }

  ready(pid: Pid): CachedTask | undefined {
    return this.#ready.find(pid)?.task;
  }

  hidden(pid: Pid): TaskState | undefined {
    return this.#hidden?.get(pid);
  }

  /** The first available task, if there is one: without the generator and the iterators of `head` (bench row B4). */
  get first(): readonly ReadyTask[] {
    const { first } = this.#ready;
    return first === undefined ? [] : [first];
  }

  /** Available tasks in order, from the head or behind `after`. The cache must not change meanwhile. */
  head(after?: Pid): Iterable<ReadyTask> {
    return this.#ready.after(after);
  }

  hiddenTasks(): Iterable<[Pid, TaskState]> {
    return this.#hidden ?? [];
  }

  /** Puts an available task. Ignored from `firstMissing` on, because other tasks are missing there (H1). */
  putReady(pid: Pid, task: CachedTask): void {
    if (!this.knowsReadyUpTo(pid)) return;
    const place = new Place(pid, task.state);
    const known = this.#ready.insert(place);
    if (known === place) this.#taskBytes += costOf(pid);
    else this.#taskBytes -= historyBytes(known.state);
    known.state = task.state;
    this.#taskBytes += historyBytes(task.state);
    this.#dropPayload(known);
    if (task.data) this.#keepPayload(task.data, known);
  }

  putHidden(pid: Pid, state: TaskState): void {
    this.#hidden ??= new Map();
    const known = this.#hidden.get(pid);
    this.#taskBytes += historyBytes(state) + (known === undefined ? costOf(pid) : -historyBytes(known));
    this.#hidden.set(pid, state);
  }

  removeReady(pid: Pid): void {
    const place = this.#ready.remove(pid);
    if (place === undefined) return;
    this.#taskBytes -= costOf(pid) + historyBytes(place.state);
    this.#dropPayload(place);
  }

  removeHidden(pid: Pid): void {
    const state = this.#hidden?.get(pid);
    if (state === undefined) return;
    this.#hidden?.delete(pid);
    this.#taskBytes -= costOf(pid) + historyBytes(state);
  }

  /** A refill has read everything below `firstMissing`. */
  extendTo(firstMissing: Pid | undefined): void {
    this.#firstMissing = firstMissing;
  }

  /** Frees about this many bytes: hidden tasks first, oldest first, then the available tasks furthest from the head. */
  shed(bytes: number): void {
    const target = Math.max(0, this.#heldBytes - bytes);
    for (const pid of this.#hidden?.keys() ?? []) {
      if (this.#heldBytes <= target) return;
      this.removeHidden(pid);
    }
    while (this.#heldBytes > target) {
      const pid = this.#ready.last?.pid;
      if (pid === undefined) return;
      this.removeReady(pid);
      this.#firstMissing = pid;
    }
  }

  #keepPayload(data: Uint8Array, place: Place): void {
    const isAlone = this.#payloads === undefined && this.#ready.size === 1;
    if (isAlone && data.byteLength > 0 && data.byteLength <= LONGEST_STRING_BYTES) {
      place.memory = latin1Of(data);
      this.#taskBytes += STRING_OVERHEAD_BYTES + data.byteLength;
      return;
    }
    this.#payloads ??= new PayloadSlabs();
    this.#payloads.keep(data, place);
  }

  #dropPayload(place: Place): void {
    if (typeof place.memory === 'string') {
      this.#taskBytes -= STRING_OVERHEAD_BYTES + place.memory.length;
      place.memory = undefined;
    } else this.#payloads?.drop(place);
  }
}

const costOf = (pid: Pid): number => TASK_OVERHEAD_BYTES + pid.length;

/** Memory of what the task keeps of its failed attempts, about. A character of a text may take two bytes. */
function historyBytes({ history }: TaskState): number {
  if (history === undefined) return 0;
  const { progress, checkpoint, key, cancelled, links } = history;
  const texts = (progress?.text.length ?? 0) + (key?.length ?? 0) + (cancelled?.reason.length ?? 0);
  let bytes = HISTORY_OVERHEAD_BYTES + 2 * texts + (links === undefined ? 0 : linkBytes(links));
  if (checkpoint !== undefined) bytes += HISTORY_OVERHEAD_BYTES + checkpoint.byteLength;
  for (const { worker, error } of history.failures) {
    const characters = worker.length + (error?.message.length ?? 0) + (error?.details.length ?? 0);
    bytes += HISTORY_OVERHEAD_BYTES + 2 * characters;
  }
  return bytes;
}

function linkBytes({ parents, orderKey, before, after }: TaskLinks): number {
  let bytes = HISTORY_OVERHEAD_BYTES + 2 * (orderKey?.length ?? 0) + (before?.length ?? 0) + (after?.length ?? 0);
  for (const { queue, pid, key } of parents) {
    bytes += HISTORY_OVERHEAD_BYTES + 2 * (queue.length + (key?.length ?? 0)) + pid.length;
  }
  return bytes;
}
