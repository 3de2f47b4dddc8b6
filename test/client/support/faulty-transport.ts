import { CancelledError, type Transport } from '@taskmaster/client';
import { makeError, type Timing } from '@taskmaster/client/internal';
import type { Fault } from '@taskmaster/client/testing';
import type { TransportCallOptions } from '@taskmaster/client/transport';
import { type Method, type MethodKey, methodKeys, type ReplyOf, type RequestOf } from '@taskmaster/proto';

/** Answers calls of a method in place of the engine. `send` sends the request to the engine, with these options. */
type Answer<K extends MethodKey> = (
  request: RequestOf<K>,
  send: (options?: TransportCallOptions) => Promise<ReplyOf<K>>,
) => Promise<ReplyOf<K>>;

type Answers = { [K in MethodKey]?: Answer<K> };
type Requests = { readonly [K in MethodKey]: RequestOf<K>[] };

interface FaultyTransportOptions {
  /** The way to the engine, when it is open. */
  readonly engine: Promise<Transport>;
  readonly timing: Timing;
  /** Called when a call begins or ends. */
  readonly onCall: () => void;
}

/** A way to an engine that a test watches, and on which it loses requests and replies. */
export class FaultyTransport implements Transport {
  readonly reachableFrom = undefined;
  isInProcess = true;
  isUp = true;
  /** Faults of the next calls of each method, in order. Undefined: no fault. */
  readonly faults = byKey<(Fault | undefined)[]>(() => []);
  /** Failed attempts that have not arrived yet. Calling one delivers it. */
  readonly stragglers: (() => Promise<unknown>)[] = [];
  /** Calls that get no answer and do not arrive: all, or those of a method. */
  silent: boolean | MethodKey = false;
  /** Options of every attempt, also of those that did not arrive. */
  readonly options = byKey<TransportCallOptions[]>(() => []);
  /** The requests that the engine has got, also those that it refused. */
  readonly arrived = byKey<object[]>(() => []) as Requests;
  /** Those among them that the engine has not answered yet. */
  readonly waiting = byKey<object[]>(() => []) as Requests;
  /** What answers in place of the engine. */
  readonly answers: Answers = {};
  /** Parts of a stream in place of those of the engine. */
  streamed: ((request: object) => AsyncIterable<object>) | undefined;
  readonly #engine: Promise<Transport>;
  readonly #timing: Timing;
  readonly #onCall: () => void;
  readonly #closing = new AbortController();

  constructor({ engine, timing, onCall }: FaultyTransportOptions) {
    this.#engine = engine;
    this.#timing = timing;
    this.#onCall = onCall;
  }

  unary<Q extends object, R>(method: Method<Q, R>, request: Q, options: TransportCallOptions = {}): Promise<R> {
    const { waitMs = 0 } = request as { readonly waitMs?: number };
    const send = async (sent = options): Promise<R> => (await this.#engine).unary(method, request, sent);
    const answer = this.answers[method.key] as ((request: Q, answered: typeof send) => Promise<R>) | undefined;
    const arrive = (): Promise<R> =>
      this.#arrived(method.key, request, () => (answer === undefined ? send() : answer(request, send)));
    return this.#attempt(method.key, options, waitMs, arrive);
  }

  async *stream<Q extends object, R>(
    method: Method<Q, R>,
    request: Q,
    options: TransportCallOptions = {},
  ): AsyncGenerator<R, undefined> {
    const engine = await this.#engine;
    const open = async () => {
      this.arrived[method.key].push(request as never);
      return this.streamed?.(request) ?? engine.stream(method, request, options);
    };
    yield* (await this.#attempt(method.key, options, 0, open)) as AsyncIterable<R>;
  }

  get closed(): boolean {
    return this.#closing.signal.aborted;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await (await this.#engine).close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #arrived<R>(key: MethodKey, request: object, act: () => Promise<R>): Promise<R> {
    const waiting: object[] = this.waiting[key];
    this.arrived[key].push(request as never);
    waiting.push(request);
    try {
      return await act();
    } finally {
      waiting.splice(waiting.indexOf(request), 1);
    }
  }

  async #attempt<R>(
    key: MethodKey,
    options: TransportCallOptions,
    waitMs: number,
    arrive: () => Promise<R>,
  ): Promise<R> {
    this.#onCall();
    try {
      this.options[key].push(options);
      if (this.closed) throw closedError(false);
      if (options.signal?.aborted) throw cancelledError(false);
      // A cancelled lease waits until no more tasks can be leased to it.
      const heard = key === 'leaseTasks' ? { timeoutMs: options.timeoutMs } : options;
      if (this.silent === true || this.silent === key) return await this.#unanswered(heard, waitMs);
      const fault = this.faults[key].shift();
      if (fault?.when === 'late') this.stragglers.push(arrive);
      if (fault !== undefined && fault.when !== 'after') throw fault.error;
      const reply = await arrive();
      if (fault !== undefined) throw fault.error;
      return reply;
    } finally {
      this.#onCall();
    }
  }

  /** Rejects at the timeout, after an abort, or when the transport is closed. */
  #unanswered({ signal, timeoutMs }: TransportCallOptions, waitMs: number): Promise<never> {
    return new Promise((_resolve, reject) => {
      const late = makeError('no answer', { reason: 'DEADLINE_EXCEEDED', maybeApplied: true });
      if (timeoutMs !== undefined) this.#timing.after(timeoutMs + waitMs, () => reject(late));
      signal?.addEventListener('abort', () => reject(cancelledError(true)));
      this.#closing.signal.addEventListener('abort', () => reject(closedError(true)));
    });
  }
}

const closedError = (maybeApplied: boolean): CancelledError =>
  new CancelledError('the client is closed', { reason: 'CANCELLED', maybeApplied });

const cancelledError = (maybeApplied: boolean): CancelledError =>
  new CancelledError('the caller cancelled the call', { reason: 'CANCELLED', maybeApplied });

function byKey<T>(make: () => T): { readonly [K in MethodKey]: T } {
  return Object.fromEntries(methodKeys.map((key) => [key, make()])) as { [K in MethodKey]: T };
}
