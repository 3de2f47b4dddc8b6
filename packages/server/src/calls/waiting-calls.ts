import { Refusal } from '@taskmaster/engine/domain';
import type { PrincipalUsage } from '../access/principal-usage.ts';

const RETRY_MS = 1_000;

export interface WaitingLimits {
  /** Maximum number of calls of one connection. */
  readonly calls: number;
  /** Maximum memory of the calls of all connections, in bytes. */
  readonly totalBytes: number;
  /** Maximum memory of the calls of one connection, in bytes. */
  readonly connectionBytes: number;
}

interface Waiting {
  calls: number;
  bytes: number;
}

/**
 * Counts the calls that wait, by connection, and the memory of what they name. Their number is limited, so that a connection can
 * make other calls. Their memory is limited because a call may name a thousand queues.
 */
export class WaitingCalls {
  readonly #limits: WaitingLimits;
  readonly #byConnection = new Map<string, Waiting>();
  #bytes = 0;

  constructor(limits: WaitingLimits) {
    this.#limits = limits;
  }

  /** Memory of all calls that wait, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Counts a call, for its principal, too. Throws a `Refusal` if too many wait already. */
  add(connection: string, bytes = 0, usage?: PrincipalUsage): void {
    const { calls } = this.#limits;
    if ((this.#byConnection.get(connection)?.calls ?? 0) >= calls) throw tooManyWait(calls, 'connection');
    this.addBytes(connection, bytes, usage);
    this.#of(connection).calls++;
  }

  /**
   * Counts a further wait of a call that is counted, or a wait of a stream, which limits them itself. Throws a `Refusal` if there
   * is no room for its memory, or its principal has too many waiters.
   */
  addBytes(connection: string, bytes: number, usage?: PrincipalUsage): void {
    const { totalBytes, connectionBytes } = this.#limits;
    const ofConnection = (this.#byConnection.get(connection)?.bytes ?? 0) + bytes;
    if (ofConnection > connectionBytes) throw tooMuchWaits(connectionBytes, 'of this connection ');
    if (this.#bytes + bytes > totalBytes) throw tooMuchWaits(totalBytes, '');
    usage?.beginWaiting();
    if (bytes === 0) return;
    this.#of(connection).bytes = ofConnection;
    this.#bytes += bytes;
  }

  /** Call this when a counted call is over. `waiters`: how many waits of it were counted. `bytes`: their memory. */
  remove(connection: string, bytes = 0, usage?: PrincipalUsage, waiters = 1): void {
    this.#of(connection).calls--;
    this.removeBytes(connection, bytes, usage, waiters);
  }

  removeBytes(connection: string, bytes: number, usage?: PrincipalUsage, waiters = 1): void {
    usage?.endWaiting(waiters);
    const waiting = this.#of(connection);
    waiting.bytes -= bytes;
    this.#bytes -= bytes;
    if (waiting.calls === 0 && waiting.bytes === 0) this.#byConnection.delete(connection);
  }

  #of(connection: string): Waiting {
    let waiting = this.#byConnection.get(connection);
    if (waiting === undefined) {
      waiting = { calls: 0, bytes: 0 };
      this.#byConnection.set(connection, waiting);
    }
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

function tooMuchWaits(limit: number, whose: string): Refusal {
  return new Refusal(
    'TOO_MANY_WAITERS',
    `the queues that waiting calls ${whose}name have ${limit} bytes already: name fewer queues, or shorter ones`,
    { retryDelayMs: RETRY_MS, metadata: { limit: String(limit) } },
  );
}
