import type { ApplyAtom } from '../domain/atom.ts';
import type { PartitionId, Ticket } from '../domain/ids.ts';
import { RingBuffer } from '../domain/ring-buffer.ts';
import { LogTail } from './log-tail.ts';

interface Untold {
  readonly atom: ApplyAtom;
  readonly number: number;
}

/**
 * The followers of partitions' logs. They get an atom when all its changes can be read: rows that a follower reads afterwards
 * must not be older than the atom.
 */
export class LogTails {
  readonly #tails = new Set<LogTail>();
  readonly #untold = new RingBuffer<Untold>();

  /** Follows all atoms of the partition that are committed from now on. `maxBacklogBytes`: see `LogTail`. */
  follow(id: PartitionId, lastTicket: Ticket, maxBacklogBytes?: number): LogTail {
    const tail = new LogTail(id, lastTicket, maxBacklogBytes);
    this.#tails.add(tail);
    return tail;
  }

  unfollow(tail: LogTail): void {
    this.#tails.delete(tail);
    if (this.#tails.size === 0) this.#untold.clear();
  }

  /** `number`: see `PendingChanges`. */
  committed(atom: ApplyAtom, number: number): void {
    for (const tail of this.#tails) {
      if (!tail.isOf(atom)) continue;
      this.#untold.push({ atom, number });
      return;
    }
  }

  /** Called when the store shows all changes of the atoms up to this number. */
  shown(number: number): void {
    for (;;) {
      const first = this.#untold.first;
      if (first === undefined || first.number > number) return;
      this.#untold.shift();
      for (const tail of this.#tails) tail.push(first.atom);
    }
  }
}
