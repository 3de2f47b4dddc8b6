import type { TaskChange } from '../domain/atom.ts';
import { latin1Of } from '../domain/bytes.ts';
import type { Instant, Pid } from '../domain/ids.ts';
import type { LimitRecord } from '../domain/queue-limits.ts';
import { LONG_AGO } from '../domain/task.ts';
import type { RecordRows } from '../log/records.ts';
import type { Queue } from '../queues/queue.ts';
import { pidOfPattern } from './pattern-records.ts';
import type { RecordsInMemory } from './record-table.ts';

/** Between the PID of a limit and a key. UTF-8 does not have this byte. */
const BEFORE_KEY = '\xff';

/** The PID of the record of a bucket. `key`: empty if the limit is one of all tasks together. */
export const pidOfBucket = ({ pattern, message }: LimitRecord, key: string): Pid =>
  (pidOfPattern(pattern, message.keys) + BEFORE_KEY + latin1Of(Buffer.from(key))) as Pid;

interface Bucket {
  /** The PID of its limit. */
  readonly limit: Pid;
  readonly key: string;
}

function bucketOfPid(pid: Pid): Bucket {
  const at = pid.indexOf(BEFORE_KEY);
  return { limit: pid.slice(0, at) as Pid, key: Buffer.from(pid.slice(at + 1), 'latin1').toString() };
}

/** The records of one group. */
interface OfGroup {
  readonly queue: Queue;
  /** See `TokenBucket.restore`. */
  readonly emptyAt: Map<Pid, Instant>;
  /** Those that say nothing any more. */
  readonly over: Set<Pid>;
}

/**
 * The buckets of tokens on disk. A lease that takes tokens writes in its own atom when their bucket would have been empty, which
 * the record has as the instant of its enqueue. So what was taken is as durable as the leases, and moves with them. Limits know
 * their buckets, so this only says what the records are. A bucket that is full needs none.
 */
export class TokenTable implements RecordsInMemory {
  readonly #byGroup = new Map<string, OfGroup>();
  /** Groups with records that are over. */
  readonly #over = new Set<OfGroup>();

  /** What the record of a bucket says. Undefined: there is none. */
  emptyAt(group: string, pid: Pid): Instant | undefined {
    return this.#byGroup.get(group)?.emptyAt.get(pid);
  }

  /** The buckets that have records. */
  *of(group: string): Generator<Bucket & { readonly pid: Pid; readonly emptyAt: Instant }> {
    for (const [pid, emptyAt] of this.#byGroup.get(group)?.emptyAt ?? []) yield { ...bucketOfPid(pid), pid, emptyAt };
  }

  /** A bucket is full, or has gone. */
  end(group: string, pid: Pid): void {
    const found = this.#byGroup.get(group);
    if (found?.emptyAt.has(pid) !== true) return;
    found.over.add(pid);
    this.#over.add(found);
  }

  /** All buckets of a limit have gone. */
  endAll(group: string, limit: Pid): void {
    for (const bucket of this.of(group)) if (bucket.limit === limit) this.end(group, bucket.pid);
  }

  get hasOver(): boolean {
    return this.#over.size > 0;
  }

  /** The queues with records that are over. */
  *queuesWithOver(): Generator<Queue> {
    for (const { queue } of this.#over) yield queue;
  }

  /** Up to `most` records of the queue that are over, with what they say. */
  over({ ledger }: Queue, most: number): [Pid, Instant][] {
    const found = this.#byGroup.get(ledger.name.group);
    const over: [Pid, Instant][] = [];
    for (const pid of found?.over ?? []) {
      if (over.length === most) break;
      over.push([pid, found?.emptyAt.get(pid) ?? LONG_AGO]);
    }
    return over;
  }

  adopt(queue: Queue, rows: RecordRows): void {
    const { emptyAt } = this.#in(queue);
    for (const [pid, { hidden }] of rows) if (hidden !== undefined) emptyAt.set(pid, hidden.enqueuedAt);
  }

  changed(queue: Queue, change: TaskChange): void {
    const found = this.#in(queue);
    if (change.kind === 'dequeue') found.emptyAt.delete(change.pid);
    else found.emptyAt.set(change.pid, change.after.enqueuedAt);
    if (found.over.delete(change.pid) && found.over.size === 0) this.#over.delete(found);
  }

  forget({ ledger }: Queue): void {
    const found = this.#byGroup.get(ledger.name.group);
    if (found === undefined) return;
    this.#over.delete(found);
    this.#byGroup.delete(ledger.name.group);
  }

  #in(queue: Queue): OfGroup {
    const { group } = queue.ledger.name;
    let found = this.#byGroup.get(group);
    if (found === undefined) {
      found = { queue, emptyAt: new Map(), over: new Set() };
      this.#byGroup.set(group, found);
    }
    return found;
  }
}
