import { Refusal } from '../../domain/refusal.ts';

const RETRY_MS = 1_000;

interface Waiting {
  calls: number;
  readonly remove: () => void;
}

/** Counts the calls that wait, by connection. Their number is limited, so that a connection can make other calls. */
export class WaitingCalls {
  readonly #most: number;
  readonly #byConnection = new Map<string, Waiting>();

  /** `most`: maximum for one connection. */
  constructor(most: number) {
    this.#most = most;
  }

  /**
   * Counts a call. Returns a function to call when the call is over. Calls of one connection share the function, because
   * thousands may wait. Throws a `Refusal` if too many calls wait already.
   */
  add(connection: string): () => void {
    const waiting = this.#byConnection.get(connection) ?? this.#begin(connection);
    if (waiting.calls >= this.#most) throw tooManyWait(this.#most, 'connection');
    waiting.calls++;
    return waiting.remove;
  }

  #begin(connection: string): Waiting {
    const remove = (): void => {
      if (--waiting.calls === 0) this.#byConnection.delete(connection);
    };
    const waiting: Waiting = { calls: 0, remove };
    this.#byConnection.set(connection, waiting);
    return waiting;
  }
}

export function tooManyWait(most: number, of: 'connection' | 'stream'): Refusal {
  return new Refusal(
    'TOO_MANY_WAITERS',
    `${most} calls of this ${of} wait already: open another one, or name several queues in one lease`,
    { retryDelayMs: RETRY_MS, metadata: { limit: String(most) } },
  );
}
