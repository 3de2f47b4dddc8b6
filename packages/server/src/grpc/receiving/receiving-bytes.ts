import { Refusal } from '@taskmaster/engine/domain';
import { NOTHING_CHANGED } from '@taskmaster/proto';

const RETRY_MS = 100;

/** A call whose request has not arrived completely. */
export interface ReceivingCall {
  /** Bytes of its request in memory. */
  readonly bytes: number;
  /** When its first byte arrived, on the clock of `ReceivingBytes`. Undefined while the server does not read. */
  readonly began: number | undefined;
  /** Adds the call with its bytes, unless its request is complete. */
  count(): void;
  /** Ends the call, which then frees its bytes. */
  refuse(refusal: Refusal): void;
}

/** The calls of one connection whose requests are incomplete. */
export interface ReceivingConnection {
  bytes: number;
  /** The call that has received nothing for the longest time comes first. */
  readonly calls: Set<ReceivingCall>;
}

export interface ReceivingLimits {
  /** Maximum size of incomplete requests of all connections, in bytes. */
  readonly totalBytes: number;
  /** Maximum size of incomplete requests of one connection, in bytes. */
  readonly connectionBytes: number;
  /** A request must be complete this long after its first byte, in ms. */
  readonly timeoutMs: number;
}

/**
 * Limits the memory of requests that are still being received, from their first byte.
 *
 *  R1  Above the limit of a connection, its call that has received nothing for the longest time is refused.
 *  R2  Above the limit of all, this happens to the connection with the most bytes. So callers that hold memory affect few others.
 *  R3  A request that takes too long is refused.
 */
export class ReceivingBytes {
  readonly #limits: ReceivingLimits;
  readonly #now: () => number;
  /** Connections with bytes. */
  readonly #connections = new Set<ReceivingConnection>();
  #later: ReceivingCall[] = [];
  #bytes = 0;

  /** `now`: a clock that never goes back, in ms. */
  constructor(limits: ReceivingLimits, now: () => number = () => performance.now()) {
    this.#limits = limits;
    this.#now = now;
  }

  /** Bytes of all requests that are being received. */
  get bytes(): number {
    return this.#bytes;
  }

  now(): number {
    return this.#now();
  }

  /** Counts a call at the end of this turn of the event loop. Most requests arrive completely in one turn and cost nothing. */
  countLater(call: ReceivingCall): void {
    if (this.#later.length === 0) setImmediate(this.#count);
    this.#later.push(call);
  }

  readonly #count = (): void => {
    const calls = this.#later;
    this.#later = [];
    for (const call of calls) call.count();
  };

  /** Counts bytes that a call has received. It may refuse this call or others. */
  add(connection: ReceivingConnection, call: ReceivingCall, bytes: number): void {
    const { totalBytes, connectionBytes } = this.#limits;
    this.#bytes += bytes;
    connection.bytes += bytes;
    // The call is the last one now.
    connection.calls.delete(call);
    connection.calls.add(call);
    this.#connections.add(connection);
    while (connection.bytes > connectionBytes) refuseFirst(connection, tooMuch('connection', connectionBytes));
    while (this.#bytes > totalBytes) refuseFirst(this.#largest(connection), tooMuch('server', totalBytes));
  }

  /** Call this when a request is complete, or its call has ended. */
  remove(connection: ReceivingConnection, call: ReceivingCall, bytes: number): void {
    this.#bytes -= bytes;
    connection.bytes -= bytes;
    connection.calls.delete(call);
    if (connection.calls.size === 0) this.#connections.delete(connection);
  }

  /** Refuses requests that take too long. */
  refuseLate(): void {
    const { timeoutMs } = this.#limits;
    const latest = this.#now() - timeoutMs;
    for (const { calls } of [...this.#connections]) {
      for (const call of [...calls]) {
        if (call.began === undefined || call.began > latest) continue;
        const message = `the request was not complete ${timeoutMs} ms after its first byte`;
        call.refuse(new Refusal('DEADLINE_EXCEEDED', message, { metadata: NOTHING_CHANGED }));
      }
    }
  }

  #largest(first: ReceivingConnection): ReceivingConnection {
    let largest = first;
    for (const connection of this.#connections) if (connection.bytes > largest.bytes) largest = connection;
    return largest;
  }
}

function refuseFirst({ calls }: ReceivingConnection, refusal: Refusal): void {
  const [first] = calls;
  if (first === undefined) throw new Error('a connection without calls has bytes of requests');
  first.refuse(refusal);
}

function tooMuch(of: 'connection' | 'server', limit: number): Refusal {
  return new Refusal('OVERLOADED', `requests that this ${of} is receiving have more than ${limit} bytes`, {
    retryDelayMs: RETRY_MS,
    metadata: { limit: String(limit) },
  });
}
