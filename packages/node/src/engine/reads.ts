import { ByteReader } from '../domain/bytes.ts';
import type { Pid } from '../domain/ids.ts';
import { taskKey } from '../domain/keys.ts';
import type { TaskState } from '../domain/task.ts';
import { readTaskState } from '../domain/task-codec.ts';
import { TASK_ROW_VERSION } from '../log/atom-rows.ts';
import { Family, type Store, StoreCorrupt } from '../ports/store.ts';
import type { Counts } from './counts.ts';
import type { Hold, Knowledge, Queue } from './queue.ts';

/** A task that an operation cannot decide about without the store. */
export interface Need {
  readonly queue: Queue;
  readonly pid: Pid;
  /** Whether its payload is needed too. */
  readonly payload: boolean;
}

/** Reads a row of the families ready and hidden. */
export function decodeTaskRow(row: Uint8Array): TaskState {
  const from = new ByteReader(row);
  from.version(TASK_ROW_VERSION, 'task row');
  return readTaskState(from);
}

/**
 * What one operation has read from the store. Until it is disposed of, the queues it read keep their recent changes (Q2),
 * so what it read, corrected by those, is the present state whenever the operation decides.
 */
export class Reads implements Disposable {
  readonly #store: Store;
  readonly #counts: Counts;
  readonly #states = new Map<Queue, Map<Pid, TaskState | undefined>>();
  readonly #holds = new Map<Queue, Hold>();
  readonly #payloads = new Map<Queue, Map<Pid, Uint8Array | undefined>>();

  constructor(store: Store, counts: Counts) {
    this.#store = store;
    this.#counts = counts;
  }

  async fetch(needs: readonly Need[]): Promise<void> {
    for (const { queue } of needs) this.hold(queue);
    this.#counts.coldReads += needs.length;
    const keys = needs.map(({ queue, pid }) => taskKey(queue.prefix, pid));
    const wanted = needs.filter(({ payload }) => payload);
    const payloadKeys = wanted.map(({ queue, pid }) => taskKey(queue.prefix, pid));
    const [ready, hidden, payloads] = await Promise.all([
      this.#store.get(Family.ready, keys),
      this.#store.get(Family.hidden, keys),
      wanted.length > 0 ? this.#store.get(Family.data, payloadKeys) : [],
    ]);
    for (const [i, { queue, pid }] of needs.entries()) {
      const row = ready[i] ?? hidden[i];
      this.#states.get(queue)?.set(pid, row && decodeTaskRow(row));
    }
    for (const [i, { queue, pid }] of wanted.entries()) this.#payloads.get(queue)?.set(pid, payloads[i]);
  }

  /** What is known now: memory first, because it is newer. */
  known(queue: Queue, pid: Pid): Knowledge {
    const knowledge = queue.lookUp(pid);
    if (knowledge.kind !== 'unknown') return knowledge;
    const states = this.#states.get(queue);
    if (!states?.has(pid)) return knowledge;
    const state = states.get(pid);
    return state ? { kind: 'task', task: { state, data: undefined } } : { kind: 'absent' };
  }

  /** A task's payload if it was fetched. Throws `StoreCorrupt` where it should have been there. */
  payload(queue: Queue, pid: Pid): Uint8Array | undefined {
    const payloads = this.#payloads.get(queue);
    if (!payloads?.has(pid)) return undefined;
    const payload = payloads.get(pid);
    if (payload) return payload;
    throw new StoreCorrupt(`the payload of a task in queue ${queue.fullName} is missing: restore it from a backup`);
  }

  /** Keeps the queue's recent changes from now on. */
  hold(queue: Queue): void {
    if (this.#states.has(queue)) return;
    this.#holds.set(queue, queue.hold());
    this.#states.set(queue, new Map());
    this.#payloads.set(queue, new Map());
  }

  [Symbol.dispose](): void {
    for (const [queue, hold] of this.#holds) queue.release(hold);
    this.#holds.clear();
    this.#states.clear();
  }
}
