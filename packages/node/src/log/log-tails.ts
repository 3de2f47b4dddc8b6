import { Deque } from '@js-sdsl/deque';
import type { PartitionId, Ticket } from '@taskmaster/server/domain';
import type { ApplyAtom } from '../domain/atom.ts';
import { takeFirst } from '../domain/deques.ts';
import { LogTail } from './log-tail.ts';

/** How far the store is: it shows so many atoms, and the rows of so many changed tasks, counted from the beginning. */
export interface Shown {
  readonly atoms: number;
  readonly tasks: number;
}

interface Untold {
  readonly atom: ApplyAtom;
  /** What the store has shown once it shows all of this atom. */
  readonly shown: Shown;
}

/**
 * Those who follow the log of a partition. They are told of an atom when all it did can be read: rows that are read after
 * it must not be older than it.
 */
export class LogTails {
  readonly #tails = new Set<LogTail>();
  readonly #untold = new Deque<Untold | undefined>();

  /** Every atom of the partition that is committed from now on. */
  follow(id: PartitionId, lastTicket: Ticket): LogTail {
    const tail = new LogTail(id, lastTicket);
    this.#tails.add(tail);
    return tail;
  }

  unfollow(tail: LogTail): void {
    this.#tails.delete(tail);
    if (this.#tails.size === 0) this.#untold.clear();
  }

  committed(atom: ApplyAtom, shown: Shown): void {
    for (const tail of this.#tails) {
      if (!tail.isOf(atom)) continue;
      this.#untold.pushBack({ atom, shown });
      return;
    }
  }

  applied({ atoms, tasks }: Shown): void {
    for (;;) {
      const first = this.#untold.front();
      if (first === undefined || first.shown.atoms > atoms || first.shown.tasks > tasks) return;
      takeFirst(this.#untold);
      for (const tail of this.#tails) tail.push(first.atom);
    }
  }
}
