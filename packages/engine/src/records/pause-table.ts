import type { QueueName } from '@taskmaster/proto';
import type { TaskChange } from '../domain/atom.ts';
import type { Instant } from '../domain/ids.ts';
import { decodePause, endsLater, isOver, type PauseRecord } from '../domain/queue-pauses.ts';
import { LONG_AGO, NEVER } from '../domain/task.ts';
import type { RecordRows } from '../log/records.ts';
import type { Queue } from '../queues/queue.ts';
import { type RecordsInMemory, RecordTable } from './record-table.ts';

const NONE: readonly never[] = [];

/**
 * The pauses of queues, which are records of their groups. A pause ends at its instant, whenever a sweep removes its record.
 */
export class PauseTable implements RecordsInMemory {
  readonly #records = new RecordTable<PauseRecord>(decodePause);
  /** Pauses that have not ended. No one ends before `#earliest`. */
  readonly #ending = new Set<PauseRecord>();
  #earliest = NEVER;
  /** Pauses that have ended and whose records are still there. */
  readonly #ended = new Set<PauseRecord>();

  /** All pauses of a group that have not ended. */
  list(group: string, now: Instant): PauseRecord[] {
    return [...(this.#records.of(group)?.values() ?? [])].filter((pause) => !isOver(pause, now));
  }

  /** How many pauses of all groups have not ended. */
  count(now: Instant): number {
    let pauses = 0;
    for (const pause of this.#records.all()) if (!isOver(pause, now)) pauses++;
    return pauses;
  }

  /** The pause with exactly this pattern, unless it has ended. */
  find({ group, name }: QueueName, now: Instant): PauseRecord | undefined {
    return this.list(group, now).find(({ pattern }) => pattern === name);
  }

  /** Of the pauses of a queue, the one that ends last. Undefined: it is not paused. */
  of({ group, name }: QueueName, now: Instant): PauseRecord | undefined {
    const records = this.#records.of(group);
    if (records === undefined) return undefined;
    let last: PauseRecord | undefined;
    for (const pause of records.values()) {
      if (isOver(pause, now) || !pause.matches(name)) continue;
      if (last === undefined || endsLater(pause, last)) last = pause;
    }
    return last;
  }

  /** The pauses that have ended since the last call. */
  takeEnded(now: Instant): readonly PauseRecord[] {
    // Each lease request asks.
    if (now < this.#earliest) return NONE;
    const ended = [...this.#ending].filter((pause) => isOver(pause, now));
    for (const pause of ended) {
      this.#ending.delete(pause);
      this.#ended.add(pause);
    }
    this.#earliest = NEVER;
    for (const { until = NEVER } of this.#ending) if (until < this.#earliest) this.#earliest = until;
    return ended;
  }

  /** No pause ends, and no record of one that has ended is removed, before this instant. */
  get earliest(): Instant {
    return this.#ended.size > 0 ? LONG_AGO : this.#earliest;
  }

  /** Pauses that `takeEnded` has told of, and whose records are still there. */
  get ended(): Iterable<PauseRecord> {
    return this.#ended;
  }

  adopt(queue: Queue, rows: RecordRows): void {
    this.#records.adopt(queue, rows);
    for (const pause of this.#records.of(queue.ledger.name.group)?.values() ?? []) this.#note(pause);
  }

  changed(queue: Queue, change: TaskChange): void {
    const { group } = queue.ledger.name;
    this.#forget(this.#records.of(group)?.get(change.pid));
    this.#records.changed(queue, change);
    this.#note(this.#records.of(group)?.get(change.pid));
  }

  forget(queue: Queue): void {
    for (const pause of this.#records.of(queue.ledger.name.group)?.values() ?? []) this.#forget(pause);
    this.#records.forget(queue);
  }

  #note(pause: PauseRecord | undefined): void {
    if (pause?.until === undefined) return;
    this.#ending.add(pause);
    if (pause.until < this.#earliest) this.#earliest = pause.until;
  }

  #forget(pause: PauseRecord | undefined): void {
    if (pause === undefined) return;
    this.#ending.delete(pause);
    this.#ended.delete(pause);
  }
}
