import type {
  BackupEnd,
  BackupHeader,
  BackupPartitionResponse,
  TransferredAtom,
  TransferredRow,
} from '@taskmaster/proto';
import type { PartitionId, Ticket } from '../../domain/ids.ts';
import type { Clock } from '../../ports/clock.ts';
import { sleep } from '../../ports/sleep.ts';
import type { Partitions } from '../partitions.ts';
import { ExportBrokenError, type PartitionExport } from '../transfer/export-partition.ts';
import type { Throttle } from '../transfer/throttle.ts';

/** How often new log entries are sent while a throttle delays the snapshot. */
const LOG_MS = 1_000;

export interface BackupSource {
  readonly partitions: Partitions;
  readonly clock: Clock;
  /** Each of them limits the rate of the backup. */
  readonly throttles: readonly Throttle[];
  /** Ends the backup with its reason. */
  readonly signal: AbortSignal;
  /** Called with the bytes of each part. */
  readonly sent: (bytes: number) => void;
}

/**
 * Sends a partition while it serves: the snapshot, and then the log behind it up to its last ticket. Throws
 * `ExportBrokenError` if that is not possible any more, and the signal's reason.
 *
 *  B1  A part of the snapshot is sent only if the partition was held at one epoch from the start of the export until the
 *      part was read. Otherwise rows of it may have been deleted.
 *  B2  The end is sent after everything up to its ticket is durable. So this ticket never belongs to another change.
 */
export class BackupSender {
  readonly #source: BackupSource;
  readonly #header: BackupHeader;
  readonly #leaving: PartitionExport;
  readonly #id: PartitionId;
  #sentTicket: number;

  /** `header` and `leaving` were made in one turn. */
  constructor(source: BackupSource, header: BackupHeader, leaving: PartitionExport) {
    this.#source = source;
    this.#header = header;
    this.#leaving = leaving;
    this.#id = leaving.partition;
    this.#sentTicket = header.ticket;
  }

  /** The parts of the stream, from the header to the end. */
  async *parts(): AsyncGenerator<BackupPartitionResponse> {
    yield { part: { $case: 'header', value: this.#header } };
    for await (const rows of this.#leaving.rows()) {
      this.#assertGoesOn();
      const bytes = sizeOfRows(rows);
      this.#source.sent(bytes);
      yield { part: { $case: 'rows', value: { rows } } };
      yield* this.#payFor(bytes);
    }
    const end = await this.#lastState();
    yield* this.#log(end.lastTicket);
    if (this.#sentTicket !== end.lastTicket) {
      throw new Error(`the log of partition ${this.#id} ends with ticket ${this.#sentTicket}, not ${end.lastTicket}`);
    }
    yield { part: { $case: 'end', value: end } };
  }

  /** The state that the stream ends with. Everything up to its ticket is durable and can be taken from the export (B2). */
  async #lastState(): Promise<BackupEnd> {
    this.#assertGoesOn();
    const end = lastStateOf(this.#source.partitions, this.#id);
    // Without atoms behind the snapshot, nothing is left to sync: the snapshot has synced what was committed before it.
    if (end.lastTicket > this.#header.ticket) await this.#leaving.synced();
    this.#assertGoesOn();
    return end;
  }

  /**
   * Waits until the throttles allow more than this part of the snapshot, and sends new log entries meanwhile. The entries
   * count at most as much as the part itself. So the backup of a partition whose log grows faster than a throttle allows
   * still ends.
   */
  async *#payFor(bytes: number): AsyncGenerator<BackupPartitionResponse> {
    const { clock, signal } = this.#source;
    let until = this.#pay(bytes);
    for (let most = bytes; ; ) {
      const counted = Math.min(yield* this.#log(), most);
      most -= counted;
      if (counted > 0) until = this.#pay(counted);
      const leftMs = until - clock.now();
      if (leftMs <= 0) return;
      await sleep(clock, Math.min(LOG_MS, leftMs), signal);
      this.#assertGoesOn();
    }
  }

  #pay(bytes: number): number {
    return Math.max(...this.#source.throttles.map((throttle) => throttle.pay(bytes)));
  }

  /** Sends the log entries gathered so far, none behind `upTo`. Returns their bytes. */
  async *#log(upTo?: number): AsyncGenerator<BackupPartitionResponse, number> {
    const gathered = this.#leaving.backlogBytes;
    let sent = 0;
    while (sent < gathered) {
      const atoms = this.#leaving.takeAtoms(undefined, upTo as Ticket | undefined);
      const last = atoms.at(-1);
      if (last === undefined) break;
      const bytes = sizeOfAtoms(atoms);
      sent += bytes;
      this.#sentTicket = last.ticket;
      this.#source.sent(bytes);
      yield { part: { $case: 'atoms', value: { atoms } } };
    }
    return sent;
  }

  #assertGoesOn(): void {
    this.#source.signal.throwIfAborted();
    this.#leaving.assertWhole();
    // A partition that was given up has a later epoch, too.
    if (epochOf(this.#source.partitions, this.#id) !== this.#header.epoch) {
      throw new ExportBrokenError('its holder has changed');
    }
  }
}

/** The epoch of a partition that this node holds; 0 without a cluster. */
export const epochOf = (partitions: Partitions, id: PartitionId): number => partitions.holding(id)?.epoch ?? 0;

/** The state of a held partition in this turn, with everything that is committed. */
export function lastStateOf(partitions: Partitions, id: PartitionId): BackupEnd {
  return { lastTicket: partitions.ticketsOf(id)?.lastTicket ?? 0, ...partitions.sizeOf(id) };
}

const sizeOfRows = (rows: readonly TransferredRow[]): number =>
  rows.reduce((bytes, { key, value }) => bytes + key.byteLength + value.byteLength, 0);

const sizeOfAtoms = (atoms: readonly TransferredAtom[]): number =>
  atoms.reduce((bytes, { entry }) => bytes + entry.byteLength, 0);
