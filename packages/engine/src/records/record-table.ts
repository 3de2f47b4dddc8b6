import type { TaskChange } from '../domain/atom.ts';
import type { Instant, Pid } from '../domain/ids.ts';
import { untilOf } from '../log/atom-rows.ts';
import type { RecordRows } from '../log/records.ts';
import type { Queue } from '../queues/queue.ts';

/** Records of one reserved queue name that memory keeps. */
export interface RecordsInMemory {
  /** Adds a queue of records that recovery or a transfer has loaded. */
  adopt(queue: Queue, rows: RecordRows): void;
  changed(queue: Queue, change: TaskChange): void;
  forget(queue: Queue): void;
}

/** Reads a record. `until`: until when it is hidden. Undefined: it is not. */
type Decode<T> = (bytes: Uint8Array, until: Instant | undefined) => T;

/** The records of one reserved queue name in memory, by group. They change in the turn of the commit. */
export class RecordTable<T> implements RecordsInMemory {
  readonly #decode: Decode<T>;
  readonly #byGroup = new Map<string, ReadonlyMap<Pid, T>>();
  #changes = 0;

  constructor(decode: Decode<T>) {
    this.#decode = decode;
  }

  /** Grows with each change. */
  get changes(): number {
    return this.#changes;
  }

  /** The records of a group by their PIDs. Undefined: it has none. */
  of(group: string): ReadonlyMap<Pid, T> | undefined {
    return this.#byGroup.get(group);
  }

  /** The records of all groups. */
  *all(): Generator<T, void> {
    for (const records of this.#byGroup.values()) yield* records.values();
  }

  adopt({ ledger }: Queue, rows: RecordRows): void {
    this.#changes++;
    const records = new Map(
      [...rows].map(([pid, { data, hidden }]) => [pid, this.#decode(data, untilOf(hidden))] as const),
    );
    if (records.size > 0) this.#byGroup.set(ledger.name.group, records);
  }

  changed({ ledger }: Queue, change: TaskChange): void {
    this.#changes++;
    const { group } = ledger.name;
    const records = new Map(this.#byGroup.get(group));
    if (change.kind === 'dequeue') records.delete(change.pid);
    else if (change.data !== undefined) records.set(change.pid, this.#decode(change.data, untilOf(change.after)));
    if (records.size === 0) this.#byGroup.delete(group);
    else this.#byGroup.set(group, records);
  }

  forget({ ledger }: Queue): void {
    this.#changes++;
    this.#byGroup.delete(ledger.name.group);
  }
}
