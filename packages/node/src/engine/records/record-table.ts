import type { Pid } from '@taskmaster/server/domain';
import type { TaskChange } from '../../domain/atom.ts';
import type { RecordRows } from '../../log/records.ts';
import type { Queue } from '../queues/queue.ts';

/** The records of one reserved queue name in memory, by group. They change in the turn of the commit. */
export class RecordTable<T> {
  readonly #decode: (pid: Pid, bytes: Uint8Array) => T;
  readonly #byGroup = new Map<string, ReadonlyMap<Pid, T>>();

  constructor(decode: (pid: Pid, bytes: Uint8Array) => T) {
    this.#decode = decode;
  }

  /** The records of a group by their PIDs. Undefined: it has none. */
  of(group: string): ReadonlyMap<Pid, T> | undefined {
    return this.#byGroup.get(group);
  }

  /** Adds a queue of records that recovery or a transfer has loaded. */
  adopt({ ledger }: Queue, rows: RecordRows | undefined): void {
    if (rows === undefined) throw new Error(`the records of ${ledger.name.name} were not loaded`);
    const records = new Map([...rows].map(([pid, bytes]) => [pid, this.#decode(pid, bytes)] as const));
    if (records.size > 0) this.#byGroup.set(ledger.name.group, records);
  }

  changed({ ledger }: Queue, change: TaskChange): void {
    const { group } = ledger.name;
    const records = new Map(this.#byGroup.get(group));
    if (change.kind === 'dequeue') records.delete(change.pid);
    else if (change.data !== undefined) records.set(change.pid, this.#decode(change.pid, change.data));
    if (records.size === 0) this.#byGroup.delete(group);
    else this.#byGroup.set(group, records);
  }

  forget({ ledger }: Queue): void {
    this.#byGroup.delete(ledger.name.group);
  }
}
