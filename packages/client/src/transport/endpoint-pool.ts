import { CancelledError, cancelled, type TaskMasterError, UnavailableError } from '../values/errors.ts';
import type { ClusterCheck } from './cluster-check.ts';
import type { Connection } from './connection.ts';
import type { CancelTimer, Timing } from './timing.ts';

interface Waiter {
  readonly resolve: (connection: Connection) => void;
  readonly reject: (error: TaskMasterError) => void;
  readonly settled: () => void;
}

/** Chooses connections that are up, in turn. All calls of one turn of the event loop get the same connection. */
export class EndpointPool {
  readonly #connections: readonly Connection[];
  readonly #timing: Timing;
  readonly #check: ClusterCheck | undefined;
  readonly #waiters = new Set<Waiter>();
  #next = 0;
  #chosen: Connection | undefined;
  #closed = false;

  constructor(connections: readonly Connection[], timing: Timing, check?: ClusterCheck) {
    this.#connections = connections;
    this.#timing = timing;
    this.#check = check;
  }

  /** A connection that is up. Undefined: none is up. */
  pick(): Connection | undefined {
    if (this.#chosen?.isLive) return this.#chosen;
    this.#chosen = this.#inTurn();
    // Kept for this turn, so that its calls go into one message of one stream.
    if (this.#chosen !== undefined) {
      setImmediate(() => {
        this.#chosen = undefined;
      });
    }
    return this.#chosen;
  }

  /** Whether a connection is up. */
  get isLive(): boolean {
    return this.#connections.some((connection) => connection.isLive);
  }

  /** Whether a connection is up that does not rest. */
  get hasRested(): boolean {
    const now = this.#timing.now();
    return this.#connections.some((connection) => connection.isLive && !connection.isResting(now));
  }

  /** Whether a connection other than this one is up. */
  hasOther(than: Connection): boolean {
    return this.#connections.some((connection) => connection !== than && connection.isLive);
  }

  /** The first connection that is up. @throws UnavailableError if none is up in time; CancelledError. */
  whenLive(timeoutMs: number | undefined, signal: AbortSignal | undefined): Promise<Connection> {
    const live = this.pick();
    if (live !== undefined) return Promise.resolve(live);
    if (this.#closed) return Promise.reject(closedError());
    const problem = this.#check?.problem;
    if (problem !== undefined) return Promise.reject(problem);
    if (signal?.aborted) return Promise.reject(cancelled(signal));
    return new Promise((resolve, reject) => {
      let cancelTimer: CancelTimer | undefined;
      const onAbort = (): void => this.#giveUp(waiter, cancelled(signal));
      const waiter: Waiter = {
        resolve,
        reject,
        settled() {
          cancelTimer?.();
          signal?.removeEventListener('abort', onAbort);
        },
      };
      this.#waiters.add(waiter);
      signal?.addEventListener('abort', onAbort, { once: true });
      if (timeoutMs !== undefined) {
        cancelTimer = this.#timing.after(timeoutMs, () => void this.#unreachable(waiter), true);
      }
    });
  }

  /** Resolves when each connection was tried once. @throws WrongClusterError if the endpoints cannot be used together. */
  async tried(): Promise<void> {
    await Promise.all(this.#connections.map((connection) => connection.tried));
    const problem = this.#check?.problem;
    if (problem !== undefined) throw problem;
  }

  /** Call it when an endpoint has told its cluster. */
  clusterTold(): void {
    if (this.#check?.isMixed) for (const connection of this.#connections) connection.doubt();
    const problem = this.#check?.problem;
    if (problem !== undefined) for (const waiter of [...this.#waiters]) this.#giveUp(waiter, problem);
  }

  /** The connection of this pool to this endpoint, if there is one. */
  at(endpoint: string): Connection | undefined {
    return this.#connections.find((connection) => connection.endpoint === endpoint);
  }

  /** Call it when a connection is up. It may be a connection of another owner. */
  cameUp(connection: Connection): void {
    if (!this.#connections.includes(connection)) return;
    for (const waiter of this.#waiters) {
      waiter.settled();
      waiter.resolve(connection);
    }
    this.#waiters.clear();
  }

  close(): void {
    this.#closed = true;
    for (const waiter of this.#waiters) this.#giveUp(waiter, closedError());
    for (const connection of this.#connections) connection.close();
  }

  #inTurn(): Connection | undefined {
    const count = this.#connections.length;
    const now = this.#timing.now();
    let resting: Connection | undefined;
    for (let i = 0; i < count; i++) {
      const connection = this.#connections[(this.#next + i) % count];
      if (connection === undefined || !connection.isLive) continue;
      if (connection.isResting(now)) {
        resting ??= connection;
        continue;
      }
      this.#next = (this.#next + i + 1) % count;
      return connection;
    }
    return resting;
  }

  #giveUp(waiter: Waiter, error: TaskMasterError): void {
    if (!this.#waiters.delete(waiter)) return;
    waiter.settled();
    waiter.reject(error);
  }

  async #unreachable(waiter: Waiter): Promise<void> {
    const found = await Promise.all(this.#connections.map((connection) => connection.diagnose()));
    const names = this.#connections.map(({ endpoint }) => endpoint).join(', ');
    const cause = found.find((error) => error !== undefined);
    const why = cause === undefined ? '' : ` (${cause.message})`;
    const details = { reason: 'UNAVAILABLE', retryable: true, cause };
    this.#giveUp(waiter, new UnavailableError(`no endpoint can be reached: ${names}${why}`, details));
  }
}

function closedError(): CancelledError {
  return new CancelledError('the client is closed', { reason: 'CANCELLED' });
}
