import { limits } from '@taskmaster/proto';
import type { Admission, AnswerRoom } from '../admission.ts';
import type { Pid } from '../domain/ids.ts';
import { pidIn } from '../domain/key-pointer.ts';
import { orderKeyRow, taskKey } from '../domain/keys.ts';
import { Refusal } from '../domain/refusal.ts';
import type { TaskState } from '../domain/task.ts';
import type { EngineState } from '../engine-state.ts';
import { decodeTaskRow } from '../log/atom-rows.ts';
import { Family, type Store, StoreCorruptError } from '../ports/store.ts';
import type { Counts } from '../queues/counts.ts';
import type { Knowledge, KnownLast, Queue } from '../queues/queue.ts';

const NO_NEEDS: readonly OrderNeed[] = [];
const NO_ROWS: readonly undefined[] = [];
/** What the parents of one task keep of their signals, in bytes. */
const PARENTS_BYTES = limits.parents * limits.keptSignalsBytes;

/** A task that an operation must read from the store before it can decide. */
export interface Need {
  readonly queue: Queue;
  readonly pid: Pid;
  /** Size of the payload if it is needed, too; otherwise 0. */
  readonly payloadBytes: number;
}

/** An order key whose last task must be read. */
export interface OrderNeed {
  readonly queue: Queue;
  readonly orderKey: string;
}

/** What an operation must read from the store before it can decide. */
export type AnyNeed = Need | OrderNeed;

const isOfOrder = (need: AnyNeed): need is OrderNeed => 'orderKey' in need;
const isOfTask = (need: AnyNeed): need is Need => !isOfOrder(need);

/**
 * The rows that one operation has read from the store. Until it is disposed of, changes of the queues it read stay pending (Q2).
 * Corrected by these, the rows give the present state at any time. Until then the payloads count as bytes in flight.
 */
export class Reads implements Disposable {
  readonly #store: Store;
  readonly #counts: Counts;
  readonly #admission: Admission;
  readonly #states = new Map<Queue, Map<Pid, TaskState | undefined>>();
  /** The last tasks with order keys. */
  readonly #lasts = new Map<Queue, Map<string, KnownLast>>();
  readonly #holds = new DisposableStack();
  readonly #payloads = new Map<Queue, Map<Pid, Uint8Array | undefined>>();
  #room: AnswerRoom | undefined;
  /** Size of all payloads that were read or are about to be read. */
  #payloadBytes = 0;
  /** Size of those of records. */
  #recordBytes = 0;

  constructor({ store, counts, admission }: Pick<EngineState, 'store' | 'counts' | 'admission'>) {
    this.#store = store;
    this.#counts = counts;
    this.#admission = admission;
  }

  /** Throws `REQUEST_TOO_LARGE` if the payloads are larger than all room for answers, and than what one task may need. */
  async fetch(all: readonly AnyNeed[]): Promise<void> {
    const needs = all.filter(isOfTask);
    const ofOrder = needs.length === all.length ? NO_NEEDS : all.filter(isOfOrder);
    let bytes = 0;
    for (const { queue, payloadBytes } of needs) {
      bytes += payloadBytes;
      if (queue.isReserved) this.#recordBytes += payloadBytes;
    }
    if (bytes > 0) await this.#makeRoom(bytes);
    for (const { queue } of all) this.hold(queue);
    this.#counts.coldReads += all.length;
    const keys = needs.map(({ queue, pid }) => taskKey(queue.prefix, pid));
    const wanted = needs.filter(({ payloadBytes }) => payloadBytes > 0);
    const payloadKeys = wanted.map(({ queue, pid }) => taskKey(queue.prefix, pid));
    const orderKeys = ofOrder.map(({ queue, orderKey }) => orderKeyRow(queue.prefix, orderKey));
    const [ready, hidden, payloads, lasts] = await Promise.all([
      keys.length > 0 ? this.#store.get(Family.ready, keys) : NO_ROWS,
      keys.length > 0 ? this.#store.get(Family.hidden, keys) : NO_ROWS,
      wanted.length > 0 ? this.#store.get(Family.data, payloadKeys) : NO_ROWS,
      ofOrder.length > 0 ? this.#store.get(Family.due, orderKeys) : NO_ROWS,
    ]);
    for (const [i, { queue, orderKey }] of ofOrder.entries()) this.#noteLast(queue, orderKey, lasts[i]);
    for (const [i, { queue, pid }] of needs.entries()) {
      const row = ready[i] ?? hidden[i];
      this.#states.get(queue)?.set(pid, row && decodeTaskRow(row));
    }
    for (const [i, { queue, pid }] of wanted.entries()) this.#payloads.get(queue)?.set(pid, payloads[i]);
  }

  #noteLast(queue: Queue, orderKey: string, row: Uint8Array | undefined): void {
    const ofQueue = this.#lasts.get(queue) ?? new Map<string, KnownLast>();
    this.#lasts.set(queue, ofQueue.set(orderKey, { last: row && pidIn(row) }));
  }

  /** The last task with an order key as known now. Undefined: it must be read. */
  lastInOrder(queue: Queue, orderKey: string): KnownLast | undefined {
    return queue.lastInOrder(orderKey) ?? this.#lasts.get(queue)?.get(orderKey);
  }

  /** The task as known now. Memory comes first, because it is newer. */
  known(queue: Queue, pid: Pid): Knowledge {
    const knowledge = queue.lookUp(pid);
    if (knowledge.kind !== 'unknown') return knowledge;
    const states = this.#states.get(queue);
    if (!states?.has(pid)) return knowledge;
    const state = states.get(pid);
    return state ? { kind: 'task', task: { state, data: undefined } } : { kind: 'absent' };
  }

  /** The payload of a task if it was fetched. Throws `StoreCorruptError` if it was fetched and the store has none. */
  payload(queue: Queue, pid: Pid): Uint8Array | undefined {
    const payloads = this.#payloads.get(queue);
    if (!payloads?.has(pid)) return undefined;
    const payload = payloads.get(pid);
    if (payload) return payload;
    throw new StoreCorruptError(
      `the payload of a task in queue ${queue.fullName} is missing: restore it from a backup`,
    );
  }

  /** Changes of the queue stay pending from now on (Q2). */
  hold(queue: Queue): void {
    if (this.#states.has(queue)) return;
    this.#holds.use(queue.hold());
    this.#states.set(queue, new Map());
    this.#payloads.set(queue, new Map());
  }

  /**
   * Gives the room of the payloads back. Call it before a wait for anything but these reads: operations that keep some room and
   * wait for more, or for others that do, would wait for each other for ever.
   */
  giveRoomBack(): void {
    this.#room?.[Symbol.dispose]();
    this.#room = undefined;
  }

  /** Waits for room for an answer of this size beside the payloads. It is given back with that of the payloads. */
  async makeRoomForAnswer(bytes: number): Promise<void> {
    this.giveRoomBack();
    this.#room = await this.#admission.answer(this.#payloadBytes + bytes);
  }

  async #makeRoom(bytes: number): Promise<void> {
    this.#payloadBytes += bytes;
    const most = this.#admission.maxAnswerBytes;
    const ofTasks = this.#payloadBytes - this.#recordBytes;
    // What one task needs always gets room; otherwise it could never be read, or never end.
    const isOfOne = ofTasks <= limits.dataBytes && this.#recordBytes <= PARENTS_BYTES;
    if (this.#payloadBytes > most && !isOfOne) {
      const problem = `payloads of ${this.#payloadBytes} bytes would be moved at once: at most ${Math.floor(most)}`;
      throw new Refusal('REQUEST_TOO_LARGE', problem, {
        metadata: { value: String(this.#payloadBytes), limit: String(Math.floor(most)) },
      });
    }
    this.giveRoomBack();
    this.#room = await this.#admission.answer(this.#payloadBytes);
  }

  [Symbol.dispose](): void {
    this.giveRoomBack();
    this.#holds.dispose();
    this.#states.clear();
    this.#lasts.clear();
  }
}
