import { type TransferredAtom, type TransferredRow, TransferredRowKind } from '@taskmaster/proto';
import {
  type Instant,
  latin1Of,
  type PartitionId,
  type Pid,
  type QueueId,
  type Ticket,
} from '@taskmaster/server/domain';
import type { ApplyAtom } from '../../../domain/atom.ts';
import { decodeAtom } from '../../../domain/atom-codec.ts';
import { metaKeys, queueKey, queuePrefix, requestKey, taskKey } from '../../../domain/keys.ts';
import { windowOf, writeRows, writeTaskRow, writeTaskRows } from '../../../log/atom-rows.ts';
import { encodeHolderRow } from '../../../log/holder-row.ts';
import { encodePartitionRow } from '../../../log/partition-row.ts';
import { QueueLedger } from '../../../log/queue-ledger.ts';
import { newPartition, type RecoveredPartition, replayInto } from '../../../log/replay.ts';
import { Family, type Store } from '../../../ports/store.ts';
import { WriteBatch } from '../../../ports/write-batch.ts';
import { decodeTaskRow } from '../../pending/reads.ts';
import type { ArrivedRequest } from '../../requests/request-ids.ts';
import { clearPartition } from './clear-partition.ts';
import { shiftAtom, shiftInstant, shiftState } from './shift.ts';

/** What arrived does not make the partition it should; nothing of it is held. */
export class ImportBrokenError extends Error {
  override readonly name = 'ImportBrokenError';
}

export interface ImportOptions {
  readonly store: Store;
  readonly partition: PartitionId;
  readonly epoch: number;
  /** What to add to the holder's instants. */
  readonly shiftMs: number;
  readonly ticket: Ticket;
  readonly nextQueueId: QueueId;
  readonly requestWindowMs: number;
  readonly now: () => Instant;
}

/** Outcomes of requests are kept at hand up to so many bytes; others are in the store. */
const MAX_REQUEST_BYTES = 16 * 1024 * 1024;

const EMPTY = new Uint8Array(0);

/**
 * A partition on its way to this node. Its rows are written as they come, unsynced, and are nobody's until the row that
 * says that this node holds it; what an unfinished import leaves is cleared at the next start or the next import.
 */
export class PartitionImport {
  readonly partition: PartitionId;
  readonly epoch: number;
  readonly recovered: RecoveredPartition;
  /** Outcomes of requests that a caller may repeat at this node, by id. */
  readonly requests = new Map<string, ArrivedRequest>();
  /** There were more requests than are in `requests`. */
  requestsLeftOut = false;
  #requestBytes = 0;
  readonly #options: ImportOptions;
  /** Of the atom whose end has not arrived. */
  #pieces: Uint8Array[] = [];
  /** Generations that ended on the way: parts of them may have been written before or after. */
  readonly #dropped: QueueId[] = [];
  #ended = false;

  constructor(options: ImportOptions) {
    this.partition = options.partition;
    this.epoch = options.epoch;
    this.#options = options;
    this.recovered = newPartition();
    this.recovered.lastTicket = options.ticket;
    this.recovered.nextQueueId = options.nextQueueId;
  }

  /**
   * From this turn on nothing of it is written nor deleted any more, whatever is waited for or still arrives: the
   * partition is somebody else's. The store puts what was written before ahead of what others write later.
   */
  end(): void {
    this.#ended = true;
  }

  /** Makes room for it. Must be resolved before anything is added. */
  async begin(): Promise<void> {
    const { store, partition } = this.#options;
    this.assertGoesOn();
    const mark = new WriteBatch();
    mark.put(Family.meta, metaKeys.clear(partition), EMPTY);
    await store.write(mark, { sync: true });
    await clearPartition(store, partition, () => this.assertGoesOn());
    // Again: clearing took it away.
    this.assertGoesOn();
    const marked = new WriteBatch();
    marked.put(Family.meta, metaKeys.clear(partition), EMPTY);
    await store.write(marked, { sync: true });
    this.assertGoesOn();
  }

  /** To be asked in the turn in which something is written. */
  assertGoesOn(): void {
    if (this.#ended) throw new ImportBrokenError(`partition ${this.partition} begins anew here, or arrives once more`);
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
      const atom = shiftAtom(decodeAtom(partition, ticket as Ticket, whole), shiftMs);
      replayInto(this.recovered, atom);
      writeRows(atom, batch, requestWindowMs);
      writeStates(batch, atom);
      for (const { queueId } of atom.dropped) this.#dropped.push(queueId);
      if (atom.request) this.#remember({ ...atom.request, at: atom.at });
    }
    if (batch.count > 0) await store.write(batch, { sync: false });
  }

  /** Makes durable what has come so far, so that what makes this node the holder has little left to sync. */
  async sync(): Promise<void> {
    await this.#options.store.write(new WriteBatch(), { sync: true });
  }

  /** Throws where what arrived is not the whole partition. */
  assertComplete(lastTicket: number, tasks: number): void {
    let counted = 0;
    for (const { size } of this.recovered.ledgers.values()) counted += size;
    if (this.recovered.lastTicket !== lastTicket || counted !== tasks) {
      throw new ImportBrokenError(
        `${counted} tasks up to ticket ${this.recovered.lastTicket} arrived, ${tasks} up to ticket ${lastTicket} were sent`,
      );
    }
  }

  /** What must be durable before `holderRow`. */
  writeState(batch: WriteBatch): void {
    const { partition, recovered } = this;
    for (const ledger of recovered.ledgers.values()) {
      batch.put(Family.queues, queueKey(partition, ledger.queueId), ledger.encode());
    }
    for (const queueId of this.#dropped) batch.put(Family.meta, metaKeys.reap(partition, queueId), EMPTY);
    const row = encodePartitionRow({ appliedTicket: recovered.lastTicket, nextQueueId: recovered.nextQueueId });
    batch.put(Family.meta, metaKeys.partition(partition), row);
    // There is no log before this ticket.
    recovered.trimmedTicket = recovered.lastTicket;
    recovered.changed.clear();
  }

  /** Makes this node the holder. */
  writeHolder(batch: WriteBatch): void {
    batch.put(Family.meta, metaKeys.holder(this.partition), encodeHolderRow({ kind: 'serving', epoch: this.epoch }));
    batch.delete(Family.meta, metaKeys.clear(this.partition));
  }

  /** The whole entry, once its last piece is there. */
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
        ledger.shift(shiftMs);
        this.recovered.ledgers.set(ledger.queueId, ledger);
        return;
      }
      case TransferredRowKind.TRANSFERRED_ROW_KIND_DATA:
        batch.put(Family.data, taskKey(prefix, pid), row.value);
        return;
      case TransferredRowKind.TRANSFERRED_ROW_KIND_READY:
      case TransferredRowKind.TRANSFERRED_ROW_KIND_HIDDEN:
        writeTaskRow(batch, prefix, pid, shiftState(decodeTaskRow(row.value), shiftMs));
        return;
      case TransferredRowKind.TRANSFERRED_ROW_KIND_REQUEST:
        this.#addRequest(batch, row);
        return;
      default:
        throw new ImportBrokenError(`a row of unknown kind ${row.kind} arrived`);
    }
  }

  /** The row does not say when within its window the request was: the end of it, so that it is not forgotten too early. */
  #addRequest(batch: WriteBatch, { key, value, window }: TransferredRow): void {
    const { partition, shiftMs, requestWindowMs, now } = this.#options;
    const id = latin1Of(key);
    const latest = shiftInstant(((window + 1) * requestWindowMs - 1) as Instant, shiftMs);
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

/** What an atom made of its tasks, change by change: one may take a task away and put another of its PID there. */
function writeStates(batch: WriteBatch, { partition, changes }: ApplyAtom): void {
  for (const change of changes) {
    const earlier = change.kind === 'enqueue' ? [] : [change.before];
    const now = change.kind === 'dequeue' ? undefined : change.after;
    writeTaskRows(batch, queuePrefix(partition, change.queueId), change.pid, { earlier, now });
  }
}
