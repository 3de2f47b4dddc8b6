import type { CallSignal } from '../domain/call-signal.ts';
import type { Instant } from '../domain/ids.ts';
import type { CancelTimer, Clock } from '../ports/clock.ts';
import type { SeededRandom } from './seeded-random.ts';

type Timers = Pick<Clock, 'now' | 'at'>;

/** What befalls messages between processes, each by chance. Rates are parts of 1; times are in virtual ms. */
export interface Weather {
  /** What a message takes at most; at least 1. */
  latencyMs: number;
  lossRate: number;
  /** Of requests that are carried out twice, the second time up to `lateMs` later. */
  duplicateRate: number;
  /** Of messages that take up to `lateMs`, often longer than anybody waits for them. */
  lateRate: number;
  lateMs: number;
}

export const CALM: Weather = { latencyMs: 1, lossRate: 0, duplicateRate: 0, lateRate: 0, lateMs: 0 };

/** Where messages arrive. */
export interface Host {
  /** Whether somebody listens there now. */
  readonly isUp: boolean;
  /** When what arrives is taken up; a process that stands still lets it wait. */
  readonly outside: Timers;
  /** Ends of the calls that are being served; the host calls them all when its process ends. */
  readonly serving: Set<() => void>;
}

/** One message on its way, at the moment in which it arrives. */
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
  /** Whose timers end with the caller's process. Default: true time. */
  readonly caller?: Timers;
  readonly signal?: CallSignal | undefined;
  /** Whether chance may carry it out twice. */
  readonly mayDouble?: boolean;
}

/** No answer came, for whatever reason. */
export class LinkBrokenError extends Error {
  override readonly name = 'LinkBrokenError';
  /** Whether the request may have been carried out, or may still be. */
  readonly maybeServed: boolean;

  constructor(message: string, maybeServed: boolean) {
    super(message);
    this.maybeServed = maybeServed;
  }
}

/** A break that is noticed by a reset connection; otherwise only silence tells of it. */
const RESET_RATE = 0.5;

/** Calls between the processes of a simulation. */
export class SimNetwork {
  /** Pairs `from>to` between which nothing passes. */
  readonly cut = new Set<string>();
  readonly weather: Weather;
  /** Told of each message that arrives, just before it is taken up: whatever it does to the host counts. */
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

  /** Has a host serve a request. Rejects with `LinkBrokenError`, or with what `serve` throws: that is the host's answer. */
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

  /** One message that nobody answers. */
  send(from: string, to: string, arrive: () => void): void {
    if (this.isLost(from, to)) return;
    this.#deliver(to, this.delayMs(), () => {
      if (this.#hostAt(to)?.isUp) arrive();
    });
  }

  /** For `carry`: whether the next message is lost, and what it takes. */
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

/** One call on its way. The first end counts. */
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
    // The host may be gone now, or stand still.
    host.outside.at(host.outside.now(), () => {
      if (host.isUp) this.#serveAt(host);
      else this.breakLater('the process ended', true);
    });
  }

  #serveAt(host: Host): void {
    const onProcessEnd = (): void => this.breakLater('the process ended', true);
    host.serving.add(onProcessEnd);
    const answer = (settle: () => void): void => {
      // Of a process that ended nobody hears.
      if (host.serving.delete(onProcessEnd)) this.#answer(settle);
    };
    this.#serve().then(
      (value) => answer(() => this.outcome.resolve(value)),
      (error: unknown) => answer(() => this.outcome.reject(error)),
    );
  }

  /** Sometimes the caller hears of it, otherwise only silence tells of it. */
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
      // The caller may be gone now, or stand still.
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
