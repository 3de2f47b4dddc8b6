import { type TransferredAtom, type TransferredRow, TransferredRowKind } from '@taskmaster/proto';
import type { Instant, PartitionId, QueueId, Ticket } from '@taskmaster/server/domain';
import { afterPrefix, partitionRange, pidOfTaskKey, requestIdOfKey, windowOfRequestKey } from '../../../domain/keys.ts';
import type { LogTail } from '../../../log/log-tail.ts';
import { Family, type KeyRange, type Row } from '../../../ports/store.ts';
import type { EngineState } from '../../engine-state.ts';
import type { Queue } from '../../queues/queue.ts';

/** Rows of one part of a snapshot take about so many bytes. */
const PART_BYTES = 256 * 1024;
const PAGE = { rows: 2000, bytes: PART_BYTES, once: true };

const TASK_FAMILIES = [
  [TransferredRowKind.TRANSFERRED_ROW_KIND_DATA, Family.data],
  [TransferredRowKind.TRANSFERRED_ROW_KIND_READY, Family.ready],
  [TransferredRowKind.TRANSFERRED_ROW_KIND_HIDDEN, Family.hidden],
] as const;

/** What the target must know before the first part. */
export interface ExportOffer {
  readonly now: Instant;
  /** The snapshot has the effects of all atoms up to this one, and maybe of later ones. */
  readonly ticket: Ticket;
  readonly nextQueueId: QueueId;
}

/** The export ended because the partition is not as it was, or memory was built anew. Nothing is lost; begin again. */
export class ExportBrokenError extends Error {
  override readonly name = 'ExportBrokenError';
}

/**
 * A snapshot of a partition and the log behind it, read while the partition serves on (the paper, 5.7).
 *
 * The snapshot is not of one instant: a part has the effects of every atom applied before it was read. It is right
 * nevertheless, if parts and atoms arrive in the order in which they are taken here: changes write whole rows, so the
 * later of the two always has the row as it is. Only the ledgers of queues are counted on: they are of the offer's
 * instant, and all of them go before the first atom.
 */
export class PartitionExport implements Disposable {
  readonly partition: PartitionId;
  readonly offer: ExportOffer;
  readonly #memory: EngineState;
  readonly #tail: LogTail;
  readonly #queues: readonly Queue[];
  readonly #ledgers: readonly TransferredRow[];
  /** All ledgers are in parts that were taken. */
  #ledgersTaken = false;

  /** Begins in this turn: every later atom is in the tail. */
  constructor(memory: EngineState, partition: PartitionId) {
    this.partition = partition;
    this.#memory = memory;
    this.#tail = memory.followLog(partition);
    const { lastTicket, nextQueueId } = memory.ticketsOf(partition);
    this.offer = { now: memory.clock.now(), ticket: lastTicket, nextQueueId };
    this.#queues = [...memory.queuesOf(partition)];
    this.#ledgers = this.#queues.map(({ ledger }) => ({
      kind: TransferredRowKind.TRANSFERRED_ROW_KIND_QUEUE,
      queueId: ledger.queueId,
      key: Buffer.alloc(0),
      value: Buffer.from(ledger.encode()),
      window: 0,
    }));
  }

  /** Resolves when all that was committed so far is on disk and can be read. */
  synced(): Promise<void> {
    return this.#memory.log.appendRows(() => {});
  }

  /** The parts of the snapshot. Between two of them the atoms that came meanwhile are to be taken. */
  async *rows(): AsyncGenerator<TransferredRow[]> {
    // What is read must have the effects of all atoms up to the offer's ticket.
    await this.synced();
    let part: TransferredRow[] = [];
    let bytes = 0;
    // Whole pages: an atom taken between two rows of one page would be undone by the second.
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

  /** Bytes of the atoms that wait to be taken; none may be before the target has what they count on. */
  get backlogBytes(): number {
    this.assertWhole();
    return this.#ledgersTaken ? this.#tail.backlogBytes : 0;
  }

  /** The next atoms of the tail; none if there are none now. */
  takeAtoms(maxBytes = PART_BYTES): TransferredAtom[] {
    this.assertWhole();
    return this.#tail.take(maxBytes);
  }

  /** Throws where what was sent cannot be completed any more. */
  assertWhole(): void {
    if (this.#memory.failed) throw new ExportBrokenError('a write of the holder failed');
    if (this.#tail.overflown) throw new ExportBrokenError('the partition takes in more than is sent');
  }

  [Symbol.dispose](): void {
    this.#memory.unfollowLog(this.#tail);
  }

  async *#pages(): AsyncGenerator<TransferredRow[]> {
    // As they were at the offer's ticket, whatever came meanwhile: the target counts the atoms behind it.
    yield* pagesOf(this.#ledgers);
    // One that came behind an atom would undo what the target counted of it.
    this.#ledgersTaken = true;
    for (const queue of this.#queues) {
      const range = { gte: queue.prefix as KeyRange['gte'], lt: afterPrefix(queue.prefix) };
      for (const [kind, family] of TASK_FAMILIES) {
        for await (const rows of this.#scan(family, range, queue)) yield rows.map((row) => taskRow(kind, queue, row));
      }
    }
    for await (const rows of this.#scan(Family.requests, partitionRange(this.partition))) yield rows.map(requestRow);
  }

  /** A page at a time, each as it is when it is read; a queue that is dropped meanwhile has no more rows. */
  async *#scan(family: Family, range: KeyRange, queue?: Queue): AsyncGenerator<Row[]> {
    let { gte } = range;
    while (!queue?.dropped) {
      this.assertWhole();
      const rows = await this.#memory.store.scan(family, { gte, lt: range.lt }, PAGE);
      const last = rows.at(-1);
      if (last === undefined) return;
      yield rows;
      gte = `${last.key}\0` as KeyRange['gte'];
    }
  }
}

/** Names and PIDs make some rows a hundred times as long as others. */
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
