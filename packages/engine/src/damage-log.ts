import { FirstTimes } from './domain/first-times.ts';
import type { Refusal } from './domain/refusal.ts';
import type { Log } from './ports/log.ts';
import { StoreCorruptError } from './ports/store.ts';

/** Logs the damaged rows that requests find, each damage once. */
export class DamageLog {
  readonly #log: Pick<Log, 'error'>;
  readonly #firstTimes = new FirstTimes();

  constructor(log: Pick<Log, 'error'>) {
    this.#log = log;
  }

  /** Logs the damage that caused this refusal. Ignores other refusals, and damage that the store has logged itself. */
  note({ reason, message, cause, metadata }: Refusal): void {
    if (reason !== 'CORRUPT_DATA' || cause instanceof StoreCorruptError) return;
    const damage = [message, cause instanceof Error ? cause.message : '', metadata.queue].join();
    if (!this.#firstTimes.isFirst(damage)) return;
    this.#log.error({ err: cause, ...metadata }, 'a request found damaged rows');
  }
}
