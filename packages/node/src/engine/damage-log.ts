import type { Refusal } from '@taskmaster/server/domain';
import type { Log } from '@taskmaster/server/ports';
import { StoreCorruptError } from '../ports/store.ts';

/** Limit of different damages that are logged. */
const MOST_LOGGED = 100;

/** Logs the damaged rows that requests find, each damage once: many requests find the same one. */
export class DamageLog {
  readonly #log: Pick<Log, 'error'>;
  readonly #logged = new Set<string>();

  constructor(log: Pick<Log, 'error'>) {
    this.#log = log;
  }

  /** Logs the damage that caused this refusal. Ignores other refusals, and damage that the store has logged itself. */
  note({ reason, message, cause, metadata }: Refusal): void {
    if (reason !== 'CORRUPT_DATA' || cause instanceof StoreCorruptError) return;
    const damage = [message, cause instanceof Error ? cause.message : '', metadata.queue].join();
    if (this.#logged.has(damage) || this.#logged.size >= MOST_LOGGED) return;
    this.#logged.add(damage);
    this.#log.error({ err: cause, ...metadata }, 'a request found damaged rows');
  }
}
