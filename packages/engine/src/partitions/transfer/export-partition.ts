import { type TransferredAtom, type TransferredRow, TransferredRowKind } from '@taskmaster/proto';
import type { Instant, PartitionId, PartitionLife, QueueId, Ticket } from '../../domain/ids.ts';
import { afterPrefix, partitionRange, pidOfTaskKey, requestIdOfKey, windowOfRequestKey } from '../../domain/keys.ts';
import type { EngineState } from '../../engine-state.ts';
import type { LogTail } from '../../log/log-tail.ts';
import { Family, type KeyRange, type Row } from '../../ports/store.ts';
import type { Queue } from '../../queues/queue.ts';

/** Approximate size of the rows in one part of a snapshot. */
const PART_BYTES = 256 * 1024;
const PAGE = { rows: 2000, bytes: PART_BYTES, once: true };

const TASK_FAMILIES = [
  [TransferredRowKind.TRANSFERRED_ROW_KIND_DATA, Family.data],
  [TransferredRowKind.TRANSFERRED_ROW_KIND_READY, Family.ready],
  [TransferredRowKind.TRANSFERRED_ROW_KIND_HIDDEN, Family.hidden],
] as const;

/** The facts that the target needs before the first part. */
export interface ExportOffer {
  readonly now: Instant;
  /** The snapshot has the effects of all atoms up to this ticket, and perhaps of later ones. */
  readonly ticket: Ticket;
  readonly nextQueueId: QueueId;
  readonly life: PartitionLife;
}

/** The export cannot continue: the partition has changed its state, or a write has failed. Retry with a new export. */
export class ExportBrokenError extends Error {
  override readonly name: string = 'ExportBrokenError';
}

/** The partition changes faster than the export is read. */
export class ExportTooSlowError extends ExportBrokenError {
  override readonly name = 'ExportTooSlowError';
}

/**
 * A snapshot of a partition and the log behind it, read while the partition serves operations (the paper, 5.7).
 *
 * The parts of the snapshot are read at different times: each has the effects of all atoms applied before. The result is
 * correct if parts and atoms arrive in the order in which they are taken here: both write whole rows, and the later one has the
 * current row. Ledgers are different, because the target adds the atoms to them: they have the state at the offer's ticket and
 * are all sent before the first atom.
 */
export class PartitionExport implements Disposable {
  readonly partition: PartitionId;
  readonly offer: ExportOffer;
  readonly #engineState: EngineState;
  readonly #tail: LogTail;
  readonly #queues: readonly Queue[];
  readonly #ledgers: readonly TransferredRow[];
  /** True after all ledgers were taken. */
  #ledgersTaken = false;

  /** Starts in this turn: the tail has every later atom. `maxBacklogBytes`: see `LogTail`. */
  constructor(engineState: EngineState, partition: PartitionId, maxBacklogBytes?: number) {
    this.partition = partition;
    this.#engineState = engineState;
    this.#tail = engineState.followLog(partition, maxBacklogBytes);
    const { lastTicket, nextQueueId, life } = engineState.ticketsOf(partition);
    this.offer = { now: engineState.clock.now(), ticket: lastTicket, nextQueueId, life };
    this.#queues = [...engineState.queuesOf(partition)];
    this.#ledgers = this.#queues.map(({ ledger }) => ({
      kind: TransferredRowKind.TRANSFERRED_ROW_KIND_QUEUE,
      queueId: ledger.queueId,
      key: Buffer.alloc(0),
      value: Buffer.from(ledger.encode()),
      window: 0,
    }));
  }

  /** Resolves when everything committed so far is on disk and can be read. */
  synced(): Promise<void> {
    return this.#engineState.log.appendRows(() => {});
  }

  /** The parts of the snapshot. After each part, the caller takes the atoms that were committed meanwhile. */
  async *rows(): AsyncGenerator<TransferredRow[]> {
    // The rows must include the effects of all atoms up to the offer's ticket.
    await this.synced();
    let part: TransferredRow[] = [];
    let bytes = 0;
    // Only whole pages: the second of two rows of a page would undo an atom taken between them.
    for await (const page of this.#pages()) {
      part.push(...page);
      for (const { key, value } of page) bytes += key.byteLength + value.byteLength;
      if (bytes < PART_BYTES && part.length < PAGE.rows) continue;
      yield part;
      part = [];
      bytes = 0;
    }
    if (part.length > 0) yield part;
  }

  /** Bytes of the atoms that wait to be taken. 0 until the ledgers were taken, because the target adds the atoms to them. */
  get backlogBytes(): number {
    this.assertWhole();
    return this.#ledgersTaken ? this.#tail.backlogBytes : 0;
  }

  /** Takes the next atoms of the tail, none behind `upTo`. Empty if none wait. */
  takeAtoms(maxBytes = PART_BYTES, upTo?: Ticket): TransferredAtom[] {
    this.assertWhole();
    return this.#tail.take(maxBytes, upTo);
  }

  /** Throws if the export cannot be completed any more. */
  assertWhole(): void {
    if (this.#engineState.failed) throw new ExportBrokenError('a write of the holder failed');
    if (this.#tail.overflown) throw new ExportTooSlowError('the partition changes faster than it is sent');
  }

  [Symbol.dispose](): void {
    this.#engineState.unfollowLog(this.#tail);
  }

  async *#pages(): AsyncGenerator<TransferredRow[]> {
    // The ledgers at the offer's ticket, without later changes: the target adds the atoms behind it.
    yield* pagesOf(this.#ledgers);
    // A ledger sent behind an atom would undo the atom's counts at the target.
    this.#ledgersTaken = true;
    for (const queue of this.#queues) {
      const range = { gte: queue.prefix as KeyRange['gte'], lt: afterPrefix(queue.prefix) };
      for (const [kind, family] of TASK_FAMILIES) {
        for await (const rows of this.#scan(family, range, queue)) yield rows.map((row) => taskRow(kind, queue, row));
      }
    }
    for await (const rows of this.#scan(Family.requests, partitionRange(this.partition))) yield rows.map(requestRow);
  }

  /** Reads rows page by page, each page with its current state. Ends if the queue is dropped meanwhile. */
  async *#scan(family: Family, range: KeyRange, queue?: Queue): AsyncGenerator<Row[]> {
    let { gte } = range;
    while (!queue?.dropped) {
      this.assertWhole();
      const rows = await this.#engineState.store.scan(family, { gte, lt: range.lt }, PAGE);
      const last = rows.at(-1);
      if (last === undefined) return;
      yield rows;
      gte = `${last.key}\0` as KeyRange['gte'];
    }
  }
}

/** Splits rows into pages by size: with long names and PIDs some rows are 100 times as long as others. */
function* pagesOf(rows: readonly TransferredRow[]): Generator<TransferredRow[]> {
  let page: TransferredRow[] = [];
  let bytes = 0;
  for (const row of rows) {
    page.push(row);
    bytes += row.value.byteLength;
    if (bytes < PAGE.bytes && page.length < PAGE.rows) continue;
    yield page;
    page = [];
    bytes = 0;
  }
  if (page.length > 0) yield page;
}

function taskRow(kind: TransferredRowKind, queue: Queue, { key, value }: Row): TransferredRow {
  const pid = Buffer.from(pidOfTaskKey(key), 'latin1');
  return { kind, queueId: queue.ledger.queueId, key: pid, value: Buffer.from(value), window: 0 };
}

function requestRow({ key, value }: Row): TransferredRow {
  const id = Buffer.from(requestIdOfKey(key), 'latin1');
  const kind = TransferredRowKind.TRANSFERRED_ROW_KIND_REQUEST;
  return { kind, queueId: 0, key: id, value: Buffer.from(value), window: windowOfRequestKey(key) };
}
