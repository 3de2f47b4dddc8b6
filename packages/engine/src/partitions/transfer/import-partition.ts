import {
  type QueueName,
  reservedQueues,
  type TransferredAtom,
  type TransferredRow,
  TransferredRowKind,
} from '@taskmaster/proto';
import type { ApplyAtom, TaskChange } from '../../domain/atom.ts';
import { decodeAtom } from '../../domain/atom-codec.ts';
import { latin1Of } from '../../domain/bytes.ts';
import type { Instant, PartitionId, PartitionLife, Pid, QueueId, Ticket } from '../../domain/ids.ts';
import { metaKeys, queueKey, queuePrefix, requestKey, taskKey } from '../../domain/keys.ts';
import { lastOf, NEVER, type TaskHistory, type TaskState } from '../../domain/task.ts';
import { decodeTaskRow, windowOf, writeLast, writeRows, writeTaskRow, writeTaskRows } from '../../log/atom-rows.ts';
import { encodeHolderRow } from '../../log/holder-row.ts';
import { encodePartitionRow } from '../../log/partition-row.ts';
import { QueueLedger } from '../../log/queue-ledger.ts';
import { type LastTasks, newPartition, noteLasts, type RecoveredPartition, replayInto } from '../../log/replay.ts';
import { Family, type Store } from '../../ports/store.ts';
import { WriteBatch } from '../../ports/write-batch.ts';
import type { ArrivedRequest } from '../../requests/request-ids.ts';
import { clearPartition } from './clear-partition.ts';

/** The import has failed, because what arrived is not the whole partition. This node does not hold it. */
export class ImportBrokenError extends Error {
  override readonly name = 'ImportBrokenError';
}

export interface ImportOptions {
  readonly store: Store;
  readonly partition: PartitionId;
  readonly epoch: number;
  /** Added to the holder's instants, in milliseconds. */
  readonly shiftMs: number;
  readonly ticket: Ticket;
  readonly nextQueueId: QueueId;
  readonly life: PartitionLife;
  /** Length of a retry window of this node, in ms. */
  readonly requestWindowMs: number;
  /** Length of a retry window of the holder, in ms. Default: the same. */
  readonly sentRequestWindowMs?: number;
  readonly now: () => Instant;
}

/** Limit of the request outcomes that are kept in memory. Others are read from the store. */
const MAX_REQUEST_BYTES = 16 * 1024 * 1024;

const EMPTY = new Uint8Array(0);

/**
 * A partition that is being transferred to this node. Its rows are written when they arrive, without a sync. They have no
 * effect until the row is written that makes this node the holder. The next start or import clears an unfinished import.
 */
export class PartitionImport {
  readonly partition: PartitionId;
  readonly epoch: number;
  readonly recovered: RecoveredPartition;
  /** Outcomes of requests that a caller may repeat at this node, by id. */
  readonly requests = new Map<string, ArrivedRequest>();
  /** True if `requests` does not have all requests that arrived. */
  requestsLeftOut = false;
  #requestBytes = 0;
  /** Queues of schedules, whose tasks are hidden by the system clock. A queue arrives before its tasks. */
  readonly #byWall = new Set<QueueId>();
  readonly #options: ImportOptions;
  /** Pieces of an atom that has not arrived completely. */
  #pieces: Uint8Array[] = [];
  /** Generations that ended during the transfer. Rows of them may arrive before or after their end. */
  readonly #dropped: QueueId[] = [];
  #ended = false;

  constructor(options: ImportOptions) {
    this.partition = options.partition;
    this.epoch = options.epoch;
    this.#options = options;
    this.recovered = newPartition(options.ticket, options.life);
    this.recovered.nextQueueId = options.nextQueueId;
  }

  /**
   * Ends the import, because the partition arrives in another way. From this turn on it writes and deletes no rows, even for
   * messages that still arrive. The store orders its earlier writes before all later ones.
   */
  end(): void {
    this.#ended = true;
  }

  /** Clears old rows of the partition. Wait for this before rows or atoms are added. */
  async begin(): Promise<void> {
    const { store, partition } = this.#options;
    this.assertGoesOn();
    const mark = new WriteBatch();
    mark.put(Family.meta, metaKeys.clear(partition), EMPTY);
    await store.write(mark, { sync: true });
    await clearPartition(store, partition, () => this.assertGoesOn());
    // Check again after the wait, and write the mark again: clearing has deleted it.
    this.assertGoesOn();
    const marked = new WriteBatch();
    marked.put(Family.meta, metaKeys.clear(partition), EMPTY);
    await store.write(marked, { sync: true });
    this.assertGoesOn();
  }

  /** Throws if the import has ended. Call it in the turn of each write. */
  assertGoesOn(): void {
    if (this.#ended)
      throw new ImportBrokenError(
        `partition ${this.partition} starts empty here, or a newer import has replaced this one`,
      );
  }

  async addRows(rows: readonly TransferredRow[]): Promise<void> {
    this.assertGoesOn();
    const batch = new WriteBatch();
    for (const row of rows) this.#addRow(batch, row);
    if (batch.count > 0) await this.#options.store.write(batch, { sync: false });
  }

  async addAtoms(atoms: readonly TransferredAtom[]): Promise<void> {
    this.assertGoesOn();
    const { partition, shiftMs, requestWindowMs, store } = this.#options;
    const batch = new WriteBatch();
    for (const { ticket, entry, continues } of atoms) {
      if (ticket !== this.recovered.lastTicket + 1) {
        throw new ImportBrokenError(`ticket ${ticket} came after ticket ${this.recovered.lastTicket}`);
      }
      const whole = this.#join(entry, continues);
      if (!whole) continue;
      const decoded = decodeAtom(partition, ticket as Ticket, whole);
      for (const { queueId, name } of decoded.created) this.#noteQueue(queueId, name);
      const atom = shiftAtom(decoded, shiftMs, this.#byWall);
      replayInto(this.recovered, atom);
      writeRows(atom, batch, requestWindowMs);
      writeStates(batch, atom);
      for (const { queueId } of atom.dropped) this.#dropped.push(queueId);
      if (atom.request) this.#remember({ ...atom.request, at: atom.at });
    }
    if (batch.count > 0) await store.write(batch, { sync: false });
  }

  /** Makes everything that has arrived durable, so that the write of the holder row has little left to sync. */
  async sync(): Promise<void> {
    await this.#options.store.write(new WriteBatch(), { sync: true });
  }

  /** Throws if the whole partition has not arrived. */
  assertComplete(lastTicket: number, tasks: number): void {
    let counted = 0;
    for (const { size } of this.recovered.ledgers.values()) counted += size;
    if (this.recovered.lastTicket !== lastTicket || counted !== tasks) {
      throw new ImportBrokenError(
        `${counted} tasks up to ticket ${this.recovered.lastTicket} arrived, ${tasks} up to ticket ${lastTicket} were sent`,
      );
    }
  }

  /** Writes the rows that must be durable before, or together with, those of `writeHolder`. */
  writeState(batch: WriteBatch): void {
    const { partition, recovered, epoch: lastEpoch } = this;
    for (const ledger of recovered.ledgers.values()) {
      batch.put(Family.queues, queueKey(partition, ledger.queueId), ledger.encode());
    }
    for (const queueId of this.#dropped) batch.put(Family.meta, metaKeys.reap(partition, queueId), EMPTY);
    const { lastTicket: appliedTicket, nextQueueId, life } = recovered;
    const row = encodePartitionRow({ appliedTicket, nextQueueId, life, lastEpoch });
    batch.put(Family.meta, metaKeys.partition(partition), row);
    // The log on this node begins behind this ticket.
    recovered.trimmedTicket = recovered.lastTicket;
    recovered.changed.clear();
  }

  /** Writes the row that makes this node the holder. */
  writeHolder(batch: WriteBatch): void {
    batch.put(Family.meta, metaKeys.holder(this.partition), encodeHolderRow({ kind: 'serving', epoch: this.epoch }));
    batch.delete(Family.meta, metaKeys.clear(this.partition));
  }

  /** The whole entry after its last piece has arrived; undefined before. */
  #join(piece: Uint8Array, continues: boolean): Uint8Array | undefined {
    if (!continues && this.#pieces.length === 0) return piece;
    this.#pieces.push(piece);
    return continues ? undefined : Buffer.concat(this.#pieces.splice(0));
  }

  #addRow(batch: WriteBatch, row: TransferredRow): void {
    const { partition, shiftMs } = this.#options;
    const prefix = queuePrefix(partition, row.queueId as QueueId);
    const pid = latin1Of(row.key) as Pid;
    switch (row.kind) {
      case TransferredRowKind.TRANSFERRED_ROW_KIND_QUEUE: {
        const ledger = QueueLedger.decode(row.value);
        this.#noteQueue(ledger.queueId, ledger.name);
        if (!this.#byWall.has(ledger.queueId)) ledger.shift(shiftMs);
        this.recovered.ledgers.set(ledger.queueId, ledger);
        return;
      }
      case TransferredRowKind.TRANSFERRED_ROW_KIND_DATA:
        batch.put(Family.data, taskKey(prefix, pid), row.value);
        return;
      case TransferredRowKind.TRANSFERRED_ROW_KIND_READY:
      case TransferredRowKind.TRANSFERRED_ROW_KIND_HIDDEN:
        this.#addTask(batch, prefix, pid, this.#arrived(row));
        return;
      case TransferredRowKind.TRANSFERRED_ROW_KIND_REQUEST:
        this.#addRequest(batch, row);
        return;
      default:
        throw new ImportBrokenError(`a row of unknown kind ${row.kind} arrived`);
    }
  }

  #addTask(batch: WriteBatch, prefix: string, pid: Pid, state: TaskState): void {
    writeTaskRow(batch, prefix, pid, state);
    const orderKey = lastOf(state.history);
    if (orderKey !== undefined) writeLast(batch, prefix, orderKey, pid);
  }

  #noteQueue(id: QueueId, { name }: QueueName): void {
    if (name === reservedQueues.schedules) this.#byWall.add(id);
  }

  #arrived({ queueId, value }: TransferredRow): TaskState {
    const state = decodeTaskRow(value);
    return this.#byWall.has(queueId as QueueId) ? state : shiftState(state, this.#options.shiftMs);
  }

  /** The row does not tell the time within its window. The end of the window is used, so that it is not forgotten too early. */
  #addRequest(batch: WriteBatch, { key, value, window }: TransferredRow): void {
    const { partition, shiftMs, requestWindowMs, sentRequestWindowMs = requestWindowMs, now } = this.#options;
    const id = latin1Of(key);
    const latest = shiftInstant(((window + 1) * sentRequestWindowMs - 1) as Instant, shiftMs);
    const at = Math.min(now(), latest) as Instant;
    batch.put(Family.requests, requestKey(partition, windowOf(at, requestWindowMs), id), value);
    this.#remember({ id, at, outcome: latin1Of(value) });
  }

  #remember(request: ArrivedRequest): void {
    this.#requestBytes += request.id.length + request.outcome.length;
    if (this.#requestBytes > MAX_REQUEST_BYTES) this.requestsLeftOut = true;
    else this.requests.set(request.id, request);
  }
}

/** Writes the states that an atom gives its tasks, change by change: it may replace a task by another one with the same PID. */
function writeStates(batch: WriteBatch, { partition, changes }: ApplyAtom): void {
  const lasts: LastTasks = new Map();
  for (const change of changes) {
    const earlier = change.kind === 'enqueue' ? undefined : change.before;
    const now = change.kind === 'dequeue' ? undefined : change.after;
    const prefix = queuePrefix(partition, change.queueId);
    writeTaskRows(batch, prefix, change.pid, { earlier, others: [], now });
    noteLasts(lasts, change);
  }
  for (const [queueId, ofQueue] of lasts) {
    const prefix = queuePrefix(partition, queueId);
    for (const [orderKey, last] of ofQueue) writeLast(batch, prefix, orderKey, last);
  }
}

/*
 * Clocks of nodes differ. So the target adds the difference between the clocks at the start of the transfer to every instant
 * that arrives. This difference includes the travel time of the offer: a lease may end a little later, never earlier.
 */

const shiftInstant = (at: Instant, byMs: number): Instant => Math.max(0, at + byMs) as Instant;

function shiftState(state: TaskState, byMs: number): TaskState {
  const { visibility } = state;
  const history = state.history && shiftHistory(state.history, byMs);
  const enqueuedAt = shiftInstant(state.enqueuedAt, byMs);
  const dueAt = shiftInstant(state.dueAt, byMs);
  if (visibility.kind === 'available') return { ...state, enqueuedAt, dueAt, history };
  const lease = visibility.lease && { ...visibility.lease, since: shiftInstant(visibility.lease.since, byMs) };
  const until = visibility.until === NEVER ? NEVER : shiftInstant(visibility.until, byMs);
  return { ...state, enqueuedAt, dueAt, history, visibility: { kind: 'hidden', until, lease } };
}

function shiftHistory(history: TaskHistory, byMs: number): TaskHistory {
  const failures = history.failures.map((failure) => ({ ...failure, at: shiftInstant(failure.at, byMs) }));
  const shifted = <T extends { readonly at: Instant }>(past: T | undefined): T | undefined =>
    past && { ...past, at: shiftInstant(past.at, byMs) };
  const [progress, cancelled] = [shifted(history.progress), shifted(history.cancelled)];
  const startBy = history.startBy === undefined ? undefined : shiftInstant(history.startBy, byMs);
  const origin = history.origin && { ...history.origin, died: shifted(history.origin.died) };
  const waits = history.waits && { ...history.waits, timeout: shifted(history.waits.timeout) };
  return { ...history, startBy, waits, failures, progress, cancelled, origin };
}

/** `byWall`: queues whose tasks are hidden by the system clock. Their instants are those of all nodes. */
function shiftAtom(atom: ApplyAtom, byMs: number, byWall: ReadonlySet<QueueId>): ApplyAtom {
  const changes = atom.changes.map((change) => (byWall.has(change.queueId) ? change : shiftChange(change, byMs)));
  return { ...atom, at: shiftInstant(atom.at, byMs), changes };
}

function shiftChange(change: TaskChange, byMs: number): TaskChange {
  switch (change.kind) {
    case 'enqueue':
      return { ...change, after: shiftState(change.after, byMs) };
    case 'change':
      return { ...change, before: shiftState(change.before, byMs), after: shiftState(change.after, byMs) };
    case 'dequeue':
      return { ...change, before: shiftState(change.before, byMs) };
    default:
      return change satisfies never;
  }
}
