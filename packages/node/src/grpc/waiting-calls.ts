import { Refusal } from '../domain/errors.ts';

const RETRY_MS = 1_000;

/** Calls that wait for tasks, by connection. They have some of a connection's calls only, so that it can make others. */
export class WaitingCalls {
  readonly #most: number;
  readonly #byConnection = new Map<string, number>();

  /** `most`: of one connection. */
  constructor(most: number) {
    this.#most = most;
  }

  /** Throws a `Refusal` where too many wait already. */
  add(connection: string): void {
    const calls = this.#byConnection.get(connection) ?? 0;
    if (calls >= this.#most) throw tooManyWait(this.#most, 'connection');
    this.#byConnection.set(connection, calls + 1);
  }

  remove(connection: string): void {
    const calls = this.#byConnection.get(connection) ?? 0;
    if (calls > 1) this.#byConnection.set(connection, calls - 1);
    else this.#byConnection.delete(connection);
  }
}

export function tooManyWait(most: number, of: 'connection' | 'stream'): Refusal {
  return new Refusal(
    'TOO_MANY_WAITERS',
    `${most} leases of this ${of} wait for tasks already: open another one, or name several queues in one lease`,
    { retryDelayMs: RETRY_MS, metadata: { limit: String(most) } },
  );
}
