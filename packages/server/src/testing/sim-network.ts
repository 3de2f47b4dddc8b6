import type { CallSignal, Instant } from '@taskmaster/engine/domain';
import type { CancelTimer, Clock } from '@taskmaster/engine/ports';
import type { SeededRandom } from '@taskmaster/engine/testing';

type Timers = Pick<Clock, 'now' | 'at'>;

/** Random faults of messages between processes. Rates are between 0 and 1, times are in virtual ms. */
export interface Weather {
  /** Longest latency of a message. The shortest is 1. */
  latencyMs: number;
  lossRate: number;
  /** Rate of requests that are served twice, the second time up to `lateMs` later. */
  duplicateRate: number;
  /** Rate of messages that take up to `lateMs`, often longer than the timeout of the caller. */
  lateRate: number;
  lateMs: number;
}

export const CALM: Weather = { latencyMs: 1, lossRate: 0, duplicateRate: 0, lateRate: 0, lateMs: 0 };

/** A process that receives messages. */
export interface Host {
  /** Whether the process accepts messages now. */
  readonly isUp: boolean;
  /** Timers of what arrives. While the process is stopped, it waits. */
  readonly outside: Timers;
  /** Functions that end the calls in progress. The host calls all of them when its process ends. */
  readonly serving: Set<() => void>;
}

/** A message at the moment of its arrival. */
export interface Arrival {
  readonly from: string;
  readonly to: string;
  readonly what: string;
  readonly way: 'request' | 'answer';
}

export interface CarryOptions {
  readonly from: string;
  readonly to: string;
  readonly what: string;
  readonly timeoutMs: number;
  /** Timers that end with the process of the caller. Default: true time. */
  readonly caller?: Timers;
  readonly signal?: CallSignal | undefined;
  /** Whether the call may be served twice by chance. */
  readonly mayDouble?: boolean;
}

/** The call had no answer. */
export class LinkBrokenError extends Error {
  override readonly name = 'LinkBrokenError';
  /** Whether the request was served, or may still be. */
  readonly maybeServed: boolean;

  constructor(message: string, maybeServed: boolean) {
    super(message);
    this.maybeServed = maybeServed;
  }
}

/** Rate of breaks that reset the connection. With other breaks the caller gets no answer. */
const RESET_RATE = 0.5;

/** Calls between the processes of a simulation. */
export class SimNetwork {
  /** Pairs `from>to` between which all messages are lost. */
  readonly cut = new Set<string>();
  readonly weather: Weather;
  /** Called with each message that arrives, just before it is served. It may change the host. */
  onArrival: ((arrival: Arrival) => void) | undefined;
  readonly random: SeededRandom;
  readonly #time: Timers;
  readonly #hostAt: (name: string) => Host | undefined;

  constructor(time: Timers, random: SeededRandom, hostAt: (name: string) => Host | undefined, weather: Weather) {
    this.#time = time;
    this.random = random;
    this.#hostAt = hostAt;
    this.weather = weather;
  }

  now(): Instant {
    return this.#time.now();
  }

  isCut(from: string, to: string): boolean {
    return this.cut.has(`${from}>${to}`);
  }

  /**
   * Sends a request to a host, which serves it. Rejects with `LinkBrokenError`, or with the error of `serve`, which is the
   * answer of the host.
   */
  carry<T>(options: CarryOptions, serve: () => Promise<T>): Promise<T> {
    const call = new SimCall(this, options.caller ?? this.#time, options, serve);
    const delayMs = this.delayMs();
    if (this.isLost(options.from, options.to)) call.breakLater('the request was lost', true);
    else this.#deliver(options.to, delayMs, () => call.arrive(this.#hostAt(options.to)));
    if (options.mayDouble && this.random.chance(this.weather.duplicateRate)) {
      this.#deliver(options.to, delayMs + this.random.int(1 + this.weather.lateMs), () => {
        if (this.#hostAt(options.to)?.isUp) serve().catch(() => {});
      });
    }
    return call.outcome.promise;
  }

  /** Sends a message that has no answer. */
  send(from: string, to: string, arrive: () => void): void {
    if (this.isLost(from, to)) return;
    this.#deliver(to, this.delayMs(), () => {
      if (this.#hostAt(to)?.isUp) arrive();
    });
  }

  /** Decides whether the next message of `carry` is lost, and how long it takes. */
  isLost(from: string, to: string): boolean {
    return this.isCut(from, to) || this.random.chance(this.weather.lossRate);
  }

  delayMs(): number {
    const { latencyMs, lateRate, lateMs } = this.weather;
    return 1 + this.random.int(this.random.chance(lateRate) ? lateMs : latencyMs);
  }

  #deliver(to: string, delayMs: number, arrive: () => void): void {
    const timers = this.#hostAt(to)?.outside ?? this.#time;
    timers.at(after(timers, delayMs), arrive);
  }
}

/** One call. Its first end counts. */
class SimCall<T> {
  readonly outcome = Promise.withResolvers<T>();
  readonly #network: SimNetwork;
  readonly #caller: Timers;
  readonly #options: CarryOptions;
  readonly #serve: () => Promise<T>;
  readonly #cancelTimeout: CancelTimer;
  #over = false;

  constructor(network: SimNetwork, caller: Timers, options: CarryOptions, serve: () => Promise<T>) {
    this.#network = network;
    this.#caller = caller;
    this.#options = options;
    this.#serve = serve;
    const { timeoutMs, signal } = options;
    this.#cancelTimeout = caller.at(after(caller, timeoutMs), () => this.#fail(`no answer in ${timeoutMs} ms`, true));
    if (signal?.aborted) this.#onAbort();
    else signal?.addEventListener('abort', this.#onAbort);
  }

  arrive(host: Host | undefined): void {
    const { from, to, what } = this.#options;
    if (!host?.isUp) {
      this.#later(() => this.#fail('nobody is there', false));
      return;
    }
    const { onArrival } = this.#network;
    if (!onArrival) {
      this.#serveAt(host);
      return;
    }
    onArrival({ from, to, what, way: 'request' });
    // The host may have ended or be stopped now.
    host.outside.at(host.outside.now(), () => {
      if (host.isUp) this.#serveAt(host);
      else this.breakLater('the process ended', true);
    });
  }

  #serveAt(host: Host): void {
    const onProcessEnd = (): void => this.breakLater('the process ended', true);
    host.serving.add(onProcessEnd);
    const answer = (settle: () => void): void => {
      // A process that has ended sends no answer.
      if (host.serving.delete(onProcessEnd)) this.#answer(settle);
    };
    this.#serve().then(
      (value) => answer(() => this.outcome.resolve(value)),
      (error: unknown) => answer(() => this.outcome.reject(error)),
    );
  }

  /** By chance the caller learns of the break. Otherwise it gets no answer. */
  breakLater(problem: string, maybeServed: boolean): void {
    if (this.#network.random.chance(RESET_RATE)) this.#later(() => this.#fail(problem, maybeServed));
  }

  #answer(settle: () => void): void {
    const { from, to, what } = this.#options;
    if (this.#network.isLost(to, from)) {
      this.breakLater('the answer was lost', true);
      return;
    }
    this.#later(() => {
      if (this.#over) return;
      const { onArrival } = this.#network;
      if (!onArrival) return this.#end(settle);
      onArrival({ from: to, to: from, what, way: 'answer' });
      // The caller may have ended or be stopped now.
      this.#caller.at(this.#caller.now(), () => this.#end(settle));
    });
  }

  #later(callback: () => void): void {
    this.#caller.at(after(this.#caller, this.#network.delayMs()), callback);
  }

  #fail(problem: string, maybeServed: boolean): void {
    const { to, what } = this.#options;
    this.#end(() => this.outcome.reject(new LinkBrokenError(`${what} to ${to}: ${problem}`, maybeServed)));
  }

  readonly #onAbort = (): void => this.#end(() => this.outcome.reject(this.#options.signal?.reason));

  #end(settle: () => void): void {
    if (this.#over) return;
    this.#over = true;
    this.#cancelTimeout();
    this.#options.signal?.removeEventListener('abort', this.#onAbort);
    settle();
  }
}

const after = (timers: Timers, ms: number): Instant => (timers.now() + ms) as Instant;
