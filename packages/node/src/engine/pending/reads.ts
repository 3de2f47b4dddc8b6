import { limits } from '@taskmaster/proto';
import { ByteReader, type Pid, Refusal, type TaskState } from '@taskmaster/server/domain';
import { taskKey } from '../../domain/keys.ts';
import { readTaskState } from '../../domain/task-codec.ts';
import { TASK_ROW_VERSION } from '../../log/atom-rows.ts';
import { Family, type Store, StoreCorruptError } from '../../ports/store.ts';
import type { Admission, AnswerRoom } from '../admission.ts';
import type { EngineState } from '../engine-state.ts';
import type { Counts } from '../queues/counts.ts';
import type { Hold, Knowledge, Queue } from '../queues/queue.ts';

/** A task that an operation cannot decide about without the store. */
export interface Need {
  readonly queue: Queue;
  readonly pid: Pid;
  /** Size of its payload if that is needed too; 0: it is not. */
  readonly payloadBytes: number;
}

/** Reads a row of the families ready and hidden. */
export function decodeTaskRow(row: Uint8Array): TaskState {
  const from = new ByteReader(row);
  from.version(TASK_ROW_VERSION, 'task row');
  return readTaskState(from);
}

/**
 * What one operation has read from the store. Until it is disposed of, the queues it read keep their recent changes (Q2),
 * so what it read, corrected by those, is the present state whenever the operation decides. The payloads it read count
 * as bytes in flight for so long.
 */
export class Reads implements Disposable {
  readonly #store: Store;
  readonly #counts: Counts;
  readonly #admission: Admission;
  readonly #states = new Map<Queue, Map<Pid, TaskState | undefined>>();
  readonly #holds = new Map<Queue, Hold>();
  readonly #payloads = new Map<Queue, Map<Pid, Uint8Array | undefined>>();
  #room: AnswerRoom | undefined;
  /** Of what was read, and is about to be. */
  #payloadBytes = 0;

  constructor({ store, counts, admission }: Pick<EngineState, 'store' | 'counts' | 'admission'>) {
    this.#store = store;
    this.#counts = counts;
    this.#admission = admission;
  }

  /** Throws `REQUEST_TOO_LARGE` where the payloads would take more memory than there is for all of them. */
  async fetch(needs: readonly Need[]): Promise<void> {
    const bytes = needs.reduce((sum, { payloadBytes }) => sum + payloadBytes, 0);
    if (bytes > 0) await this.#makeRoom(bytes);
    for (const { queue } of needs) this.hold(queue);
    this.#counts.coldReads += needs.length;
    const keys = needs.map(({ queue, pid }) => taskKey(queue.prefix, pid));
    const wanted = needs.filter(({ payloadBytes }) => payloadBytes > 0);
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

  /** A task's payload if it was fetched. Throws `StoreCorruptError` where it should have been there. */
  payload(queue: Queue, pid: Pid): Uint8Array | undefined {
    const payloads = this.#payloads.get(queue);
    if (!payloads?.has(pid)) return undefined;
    const payload = payloads.get(pid);
    if (payload) return payload;
    throw new StoreCorruptError(
      `the payload of a task in queue ${queue.fullName} is missing: restore it from a backup`,
    );
  }

  /** Keeps the queue's recent changes from now on. */
  hold(queue: Queue): void {
    if (this.#states.has(queue)) return;
    this.#holds.set(queue, queue.hold());
    this.#states.set(queue, new Map());
    this.#payloads.set(queue, new Map());
  }

  async #makeRoom(bytes: number): Promise<void> {
    this.#payloadBytes += bytes;
    const most = this.#admission.maxAnswerBytes;
    // One payload always has room: it would never be read otherwise.
    if (this.#payloadBytes > most && this.#payloadBytes > limits.dataBytes) {
      const problem = `payloads of ${this.#payloadBytes} bytes would be moved at once: at most ${Math.floor(most)}`;
      throw new Refusal('REQUEST_TOO_LARGE', problem, {
        metadata: { value: String(this.#payloadBytes), limit: String(Math.floor(most)) },
      });
    }
    // Given back first: two who have some and wait for more would wait for each other.
    this.#room?.[Symbol.dispose]();
    this.#room = undefined;
    this.#room = await this.#admission.answer(this.#payloadBytes);
  }

  [Symbol.dispose](): void {
    this.#room?.[Symbol.dispose]();
    this.#room = undefined;
    for (const [queue, hold] of this.#holds) queue.release(hold);
    this.#holds.clear();
    this.#states.clear();
  }
}
