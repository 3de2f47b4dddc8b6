import type { TransferredAtom } from '@taskmaster/proto';
import type { ApplyAtom } from '../domain/atom.ts';
import { writeAtom } from '../domain/atom-codec.ts';
import { ByteWriter } from '../domain/bytes.ts';
import type { PartitionId, Ticket } from '../domain/ids.ts';

const writer = new ByteWriter();

/** Largest piece of an entry in one transfer message: the entry of a single change may be larger than a message. */
const PIECE_BYTES = 256 * 1024;

/** Default of `maxBacklogBytes`. */
const MAX_BACKLOG_BYTES = 64 * 1024 * 1024;

/**
 * The log of one partition that follows a snapshot: the atoms behind a ticket, in the order in which they are applied. They
 * are kept in memory, encoded and with payloads, until they are taken.
 */
export class LogTail {
  readonly #partition: PartitionId;
  readonly #after: Ticket;
  readonly #maxBacklogBytes: number;
  #pieces: TransferredAtom[] = [];
  #bytes = 0;
  #overflown = false;

  /** `maxBacklogBytes`: with a larger backlog, the reader is too slow for the changes of the partition. */
  constructor(partition: PartitionId, after: Ticket, maxBacklogBytes = MAX_BACKLOG_BYTES) {
    this.#partition = partition;
    this.#after = after;
    this.#maxBacklogBytes = maxBacklogBytes;
  }

  /** Bytes of the atoms that wait to be taken. */
  get backlogBytes(): number {
    return this.#bytes;
  }

  /** True if atoms were dropped because the reader was too slow. A new snapshot is needed then. */
  get overflown(): boolean {
    return this.#overflown;
  }

  /** True if the tail keeps this atom. Atoms up to the ticket are in the snapshot, even if they are applied later. */
  isOf({ partition, ticket }: ApplyAtom): boolean {
    return !this.#overflown && partition === this.#partition && ticket > this.#after;
  }

  /** Adds an atom if the tail keeps it. */
  push(atom: ApplyAtom): void {
    if (!this.isOf(atom)) return;
    writeAtom(writer, atom, true);
    const entry = Buffer.from(writer.view());
    for (let from = 0, to = 0; to < entry.byteLength; from = to) {
      to = Math.min(from + PIECE_BYTES, entry.byteLength);
      const continues = to < entry.byteLength;
      this.#pieces.push({ ticket: atom.ticket, entry: entry.subarray(from, to), continues });
    }
    this.#bytes += entry.byteLength;
    if (this.#bytes <= this.#maxBacklogBytes) return;
    this.#overflown = true;
    this.#pieces = [];
    this.#bytes = 0;
  }

  /** Takes the next atoms in order, none behind `upTo`: at most `maxBytes`, but at least one piece of an atom. */
  take(maxBytes: number, upTo = Number.POSITIVE_INFINITY): TransferredAtom[] {
    let bytes = 0;
    let count = 0;
    for (const { ticket, entry } of this.#pieces) {
      if (ticket > upTo || (count > 0 && bytes + entry.byteLength > maxBytes)) break;
      bytes += entry.byteLength;
      count++;
    }
    this.#bytes -= bytes;
    return this.#pieces.splice(0, count);
  }
}
