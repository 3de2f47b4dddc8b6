import type { TransferredAtom } from '@taskmaster/proto';
import { ByteWriter, type PartitionId, type Ticket } from '@taskmaster/server/domain';
import type { ApplyAtom } from '../domain/atom.ts';
import { writeAtom } from '../domain/atom-codec.ts';

const writer = new ByteWriter();

/** Of an entry at most so much travels at once: that of one change may be larger than a message. */
const PIECE_BYTES = 256 * 1024;

/** More than this behind, and the reader is too slow for what the partition takes in. */
const MAX_BACKLOG_BYTES = 64 * 1024 * 1024;

/**
 * The atoms of one partition behind some ticket, as they are applied: the log that follows a snapshot. Kept encoded, with
 * payloads, until they are taken.
 */
export class LogTail {
  readonly #partition: PartitionId;
  readonly #after: Ticket;
  #pieces: TransferredAtom[] = [];
  #bytes = 0;
  #overflown = false;

  constructor(partition: PartitionId, after: Ticket) {
    this.#partition = partition;
    this.#after = after;
  }

  /** Bytes that wait to be taken. */
  get backlogBytes(): number {
    return this.#bytes;
  }

  /** It was read too slowly and has let go of atoms: a new snapshot is needed. */
  get overflown(): boolean {
    return this.#overflown;
  }

  /** Whether it is one of those that are kept. What was committed before is in the snapshot, though it is applied only now. */
  isOf({ partition, ticket }: ApplyAtom): boolean {
    return !this.#overflown && partition === this.#partition && ticket > this.#after;
  }

  /** Takes note of an atom, if it is one of those. */
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
    if (this.#bytes <= MAX_BACKLOG_BYTES) return;
    this.#overflown = true;
    this.#pieces = [];
    this.#bytes = 0;
  }

  /** The next atoms, in order: so many bytes, or one piece of an atom if that is more. */
  take(maxBytes: number): TransferredAtom[] {
    let bytes = 0;
    let count = 0;
    for (const { entry } of this.#pieces) {
      if (count > 0 && bytes + entry.byteLength > maxBytes) break;
      bytes += entry.byteLength;
      count++;
    }
    this.#bytes -= bytes;
    return this.#pieces.splice(0, count);
  }
}
