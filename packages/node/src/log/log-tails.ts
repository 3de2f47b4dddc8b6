import { Deque } from '@js-sdsl/deque';
import type { PartitionId, Ticket } from '@taskmaster/server/domain';
import type { ApplyAtom } from '../domain/atom.ts';
import { takeFirst } from '../domain/deques.ts';
import { LogTail } from './log-tail.ts';

/** Progress of the store: the numbers of atoms and of changed tasks, since the start, whose rows can be read. */
export interface Shown {
  readonly atoms: number;
  readonly tasks: number;
}

interface Untold {
  readonly atom: ApplyAtom;
  /** The store shows all of this atom when it has come this far. */
  readonly shown: Shown;
}

/**
 * The followers of partitions' logs. They get an atom when all its changes can be read: rows that a follower reads afterwards
 * must not be older than the atom.
 */
export class LogTails {
  readonly #tails = new Set<LogTail>();
  readonly #untold = new Deque<Untold | undefined>();

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
