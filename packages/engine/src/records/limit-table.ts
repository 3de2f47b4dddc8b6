import { isDeepStrictEqual } from 'node:util';
import { OrderedSet } from '@js-sdsl/ordered-set';
import type { QueueName } from '@taskmaster/proto';
import type { TaskChange } from '../domain/atom.ts';
import type { Instant, Pid } from '../domain/ids.ts';
import { decodeLimit, type LimitRecord } from '../domain/queue-limits.ts';
import { inOrder, rank } from '../domain/queue-settings.ts';
import type { RecordRows } from '../log/records.ts';
import type { Clock } from '../ports/clock.ts';
import { LeaseLimit } from '../queues/lease-limit.ts';
import type { Queue } from '../queues/queue.ts';
import { type RecordsInMemory, RecordTable } from './record-table.ts';
import { pidOfBucket, TokenTable } from './token-table.ts';

export type QueuesLimit = LeaseLimit<Queue>;

const NEVER = Number.MAX_SAFE_INTEGER as Instant;

/** `key`: the key that is used up. Undefined: the limit is. */
export interface ReachedLimit {
  readonly limit: QueuesLimit;
  readonly key: string | undefined;
}

/** When a limit that is used up gets its next token. */
interface Refill {
  readonly at: Instant;
  /** Tells refills at the same instant apart. */
  readonly order: number;
  readonly limit: QueuesLimit;
}

/** Of limits of the same queues, those that name keys best come first. The order is the same after a restart. */
const byKeysToo = (limits: QueuesLimit[]): QueuesLimit[] =>
  limits.sort((a, b) => {
    const [ofA, ofB] = [a.record.message.keys, b.record.message.keys];
    return a.pattern === b.pattern ? rank(ofB) - rank(ofA) || (ofA < ofB ? -1 : 1) : 0;
  });

/** Whether a limit allows as much as another one with the same patterns. */
const isSame = ({ message: a }: LimitRecord, { message: b }: LimitRecord): boolean =>
  a.maxLeased === b.maxLeased && isDeepStrictEqual(a.rate, b.rate);

/** The limits of queues, which are records of their groups. */
export class LimitTable implements RecordsInMemory {
  readonly tokens = new TokenTable();
  /** Limits that allow no lease now. */
  readonly usedUp = new Set<QueuesLimit>();
  /** Ordered, because thousands of limits may wait for tokens, of which some get one in each ms. */
  readonly #refills = new OrderedSet<Refill>([], (a, b) => a.at - b.at || a.order - b.order);
  readonly #refillOf = new Map<QueuesLimit, Refill>();
  #expected = 0;
  readonly #records: RecordTable<QueuesLimit>;
  /** By group: its limits, the most specific ones first. Sorting them for each of 100,000 queues would take too long. */
  readonly #ordered = new Map<string, readonly QueuesLimit[]>();
  readonly #onRefill: (at: Instant) => void;
  /** Limits, and keys of limits, that allow no further lease since the last call of `takeReached`. */
  #reached: ReachedLimit[] = [];
  /** Limits that allow leases again since the last call of `takeFreed`. */
  readonly #freed = new Set<QueuesLimit>();

  /** @param onRefill called with the instant when a limit that is used up gets a token, if it is earlier than any before. */
  constructor(clock: Pick<Clock, 'now'>, onRefill: (at: Instant) => void) {
    this.#onRefill = onRefill;
    const events = {
      now: () => clock.now(),
      reached: (limit: QueuesLimit, key: string | undefined) => void this.#reached.push({ limit, key }),
      usedUp: (limit: QueuesLimit) => {
        this.usedUp.add(limit);
        this.#expect(limit);
      },
      expects: (limit: QueuesLimit) => this.#expect(limit),
      rested: (limit: QueuesLimit) => void this.usedUp.delete(limit),
      filled: ({ record }: QueuesLimit, key: string) => this.tokens.end(record.group, pidOfBucket(record, key)),
      freed: (limit: QueuesLimit) => {
        this.usedUp.delete(limit);
        this.#expectNothing(limit);
        this.#freed.add(limit);
      },
    };
    this.#records = new RecordTable((bytes) => new LeaseLimit(decodeLimit(bytes), events));
  }

  /** No limit that is used up gets a token before. */
  get refillsAt(): Instant {
    return this.#refills.front()?.at ?? NEVER;
  }

  /** All limits of a group. */
  list(group: string): QueuesLimit[] {
    return [...(this.#records.of(group)?.values() ?? [])];
  }

  find({ group, name }: QueueName, keys: string): QueuesLimit | undefined {
    return this.list(group).find(({ pattern, record }) => pattern === name && record.message.keys === keys);
  }

  /** The limits of a queue, the most specific ones first. Undefined: it has none. */
  of({ group, name }: QueueName): readonly QueuesLimit[] | undefined {
    if (this.#records.of(group) === undefined) return undefined;
    let ordered = this.#ordered.get(group);
    if (ordered === undefined) {
      ordered = byKeysToo(inOrder(this.list(group)));
      this.#ordered.set(group, ordered);
    }
    const limits = ordered.filter(({ record }) => record.matches(name));
    return limits.length === 0 ? undefined : limits;
  }

  /** The limits of a group have changed: those that allow leases may be freed. */
  changedOf(group: string): void {
    for (const limit of this.list(group)) if (limit.room > 0) this.#freed.add(limit);
  }

  /** Frees the limits that have got tokens by now. */
  refill(now: Instant): void {
    for (let next = this.#refills.front(); next !== undefined && next.at <= now; next = this.#refills.front()) {
      const { limit } = next;
      this.#expectNothing(limit);
      limit.settle();
      // It has a token now, unless it is one of keys. Without a slot it waits for that alone.
      this.#expect(limit);
    }
  }

  #expect(limit: QueuesLimit): void {
    const at = limit.refillsAt;
    this.#expectNothing(limit);
    if (at === NEVER) return;
    const isFirst = at < this.refillsAt;
    const refill = { at, order: ++this.#expected, limit };
    this.#refillOf.set(limit, refill);
    this.#refills.insert(refill);
    if (isFirst) this.#onRefill(at);
  }

  #expectNothing(limit: QueuesLimit): void {
    const refill = this.#refillOf.get(limit);
    if (refill === undefined) return;
    this.#refillOf.delete(limit);
    this.#refills.eraseElementByKey(refill);
  }

  get hasFreed(): boolean {
    return this.#freed.size > 0;
  }

  takeFreed(): QueuesLimit[] {
    const freed = [...this.#freed];
    this.#freed.clear();
    return freed;
  }

  get hasReached(): boolean {
    return this.#reached.length > 0;
  }

  takeReached(): readonly ReachedLimit[] {
    const reached = this.#reached;
    this.#reached = [];
    return reached;
  }

  adopt(queue: Queue, rows: RecordRows): void {
    this.#ordered.delete(queue.ledger.name.group);
    this.#records.adopt(queue, rows);
  }

  /** Gives the limits of a group their buckets as the records say, once both are adopted. */
  restore(group: string): void {
    for (const { limit: pid, key, pid: record, emptyAt } of this.tokens.of(group)) {
      const limit = this.#records.of(group)?.get(pid);
      if (limit?.record.message.rate === undefined) this.tokens.end(group, record);
      else limit.restore(key, emptyAt);
    }
  }

  changed(queue: Queue, change: TaskChange): void {
    const { group } = queue.ledger.name;
    this.#ordered.delete(group);
    const earlier = this.#records.of(group)?.get(change.pid);
    const record = change.kind === 'dequeue' || change.data === undefined ? undefined : decodeLimit(change.data);
    // A service limits queues at each of its starts: what is used of the limit, and since when, stays as it is.
    if (earlier !== undefined && record !== undefined && isSame(earlier.record, record)) {
      earlier.record = record;
      return;
    }
    this.#forget(queue, change.pid);
    this.#records.changed(queue, change);
    const limit = this.#records.of(group)?.get(change.pid);
    if (earlier !== undefined) limit?.replace(earlier);
    if (limit?.record.message.rate === undefined) this.tokens.endAll(group, change.pid);
  }

  forget(queue: Queue): void {
    this.#ordered.delete(queue.ledger.name.group);
    for (const pid of this.#records.of(queue.ledger.name.group)?.keys() ?? []) this.#forget(queue, pid);
    this.#records.forget(queue);
  }

  #forget({ ledger }: Queue, pid: Pid): void {
    const limit = this.#records.of(ledger.name.group)?.get(pid);
    if (limit === undefined) return;
    this.usedUp.delete(limit);
    this.#expectNothing(limit);
    this.#freed.delete(limit);
  }
}
