import type { TransferredAtom } from '@taskmaster/proto';
import type { ApplyAtom } from '../domain/atom.ts';
import { writeAtom } from '../domain/atom-codec.ts';
import { ByteWriter } from '../domain/bytes.ts';
import type { PartitionId, Ticket } from '../domain/ids.ts';

const writer = new ByteWriter();

/** More than this behind, and the reader is too slow for what the partition takes in. */
const MAX_BACKLOG_BYTES = 64 * 1024 * 1024;

/**
 * The atoms of one partition behind some ticket, as they are applied: the log that follows a snapshot. Kept encoded, with
 * payloads, until they are taken.
 */
export class LogTail {
  readonly #partition: PartitionId;
  readonly #after: Ticket;
  #atoms: TransferredAtom[] = [];
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

  /** Takes note of an atom, if it is one of those. */
  push(atom: ApplyAtom): void {
    // What was committed before is in the snapshot, though it is applied only now.
    if (this.#overflown || atom.partition !== this.#partition || atom.ticket <= this.#after) return;
    writeAtom(writer, atom, true);
    const entry = Buffer.from(writer.view());
    this.#atoms.push({ ticket: atom.ticket, entry });
    this.#bytes += entry.byteLength;
    if (this.#bytes <= MAX_BACKLOG_BYTES) return;
    this.#overflown = true;
    this.#atoms = [];
    this.#bytes = 0;
  }

  /** The next atoms, in order: about so many bytes, at least one if there is one. */
  take(maxBytes: number): TransferredAtom[] {
    let bytes = 0;
    let count = 0;
    for (const { entry } of this.#atoms) {
      if (count > 0 && bytes + entry.byteLength > maxBytes) break;
      bytes += entry.byteLength;
      count++;
    }
    this.#bytes -= bytes;
    return this.#atoms.splice(0, count);
  }
}
