import type { QueueName } from '@taskmaster/proto';
import type { TaskChange } from '../domain/atom.ts';
import type { Pid } from '../domain/ids.ts';
import { decodeLimit } from '../domain/queue-limits.ts';
import { inOrder } from '../domain/queue-settings.ts';
import type { RecordRows } from '../log/records.ts';
import type { Clock } from '../ports/clock.ts';
import { LeaseLimit } from '../queues/lease-limit.ts';
import type { Queue } from '../queues/queue.ts';
import { type RecordsInMemory, RecordTable } from './record-table.ts';

export type QueuesLimit = LeaseLimit<Queue>;

/** The limits of queues, which are records of their groups. */
export class LimitTable implements RecordsInMemory {
  /** Limits that allow no lease now. */
  readonly usedUp = new Set<QueuesLimit>();
  readonly #records: RecordTable<QueuesLimit>;
  /** Limits that allow leases again since the last call of `takeFreed`. */
  readonly #freed = new Set<QueuesLimit>();

  constructor(clock: Pick<Clock, 'now'>) {
    const events = {
      now: () => clock.now(),
      usedUp: (limit: QueuesLimit) => void this.usedUp.add(limit),
      freed: (limit: QueuesLimit) => {
        this.usedUp.delete(limit);
        this.#freed.add(limit);
      },
    };
    this.#records = new RecordTable((bytes) => new LeaseLimit(decodeLimit(bytes), events));
  }

  /** All limits of a group. */
  list(group: string): QueuesLimit[] {
    return [...(this.#records.of(group)?.values() ?? [])];
  }

  find({ group, name }: QueueName): QueuesLimit | undefined {
    return this.list(group).find(({ pattern }) => pattern === name);
  }

  /** The limits of a queue, the most specific ones first. Undefined: it has none. */
  of({ group, name }: QueueName): readonly QueuesLimit[] | undefined {
    if (this.#records.of(group) === undefined) return undefined;
    const limits = this.list(group).filter(({ record }) => record.matches(name));
    return limits.length === 0 ? undefined : inOrder(limits);
  }

  /** The limits of a group have changed: those that allow leases may be freed. */
  changedOf(group: string): void {
    for (const limit of this.list(group)) if (limit.room > 0) this.#freed.add(limit);
  }

  get hasFreed(): boolean {
    return this.#freed.size > 0;
  }

  takeFreed(): QueuesLimit[] {
    const freed = [...this.#freed];
    this.#freed.clear();
    return freed;
  }

  adopt(queue: Queue, rows: RecordRows): void {
    this.#records.adopt(queue, rows);
  }

  changed(queue: Queue, change: TaskChange): void {
    this.#forget(queue, change.pid);
    this.#records.changed(queue, change);
  }

  forget(queue: Queue): void {
    for (const pid of this.#records.of(queue.ledger.name.group)?.keys() ?? []) this.#forget(queue, pid);
    this.#records.forget(queue);
  }

  #forget({ ledger }: Queue, pid: Pid): void {
    const limit = this.#records.of(ledger.name.group)?.get(pid);
    if (limit === undefined) return;
    this.usedUp.delete(limit);
    this.#freed.delete(limit);
  }
}
