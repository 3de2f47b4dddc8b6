import { OrderedMap } from '@js-sdsl/ordered-map';
import type { Instant } from '../domain/ids.ts';
import type { CancelTimer, Clock, ClockMark } from './clock.ts';
import { CorrectedTime } from './corrected-time.ts';

// Read when the module loads, so that virtual time still runs if a test framework replaces the timers.
const nextTurn = setImmediate;

const START_MS = Date.UTC(2026, 0, 1);
const LEAP_MS = 100;

interface Timer {
  readonly atMs: number;
  /** Timers of one instant fire in the order in which they were set. */
  readonly order: number;
}

/**
 * Resolves after all promise chains have settled that need neither time nor input. The microtask queue is empty before the
 * next turn of the event loop.
 */
export const settle = (): Promise<void> => new Promise((resolve) => nextTurn(resolve));

/** True time, shared by all machines of a simulation. Only tests advance it. */
export class VirtualTime {
  #nowMs: number;
  #order = 0;
  #moving = false;
  readonly #timers = new OrderedMap<Timer, () => void>([], (a, b) => a.atMs - b.atMs || a.order - b.order);

  readonly #settle: () => Promise<void>;

  /** `settled` is awaited before each timer; see `advance`. Default: `settle`. */
  constructor(startMs: number = START_MS, settled: () => Promise<void> = settle) {
    this.#nowMs = startMs;
    this.#settle = settled;
  }

  now(): Instant {
    return this.#nowMs as Instant;
  }

  /** Calls back once, when time reaches the instant. For an instant in the past: at the next advance. */
  at(instant: Instant, callback: () => void): CancelTimer {
    const timer: Timer = { atMs: Math.max(instant, this.#nowMs), order: this.#order++ };
    this.#timers.setElement(timer, callback);
    return () => void this.#timers.eraseElementByKey(timer);
  }

  /** Number of waiting timers. */
  get pending(): number {
    return this.#timers.size();
  }

  /** Advances time. Timers fire in order, and the promise chains of one timer settle before the next one fires. */
  async advance(ms: number): Promise<void> {
    if (!(ms >= 0)) throw new RangeError(`time cannot be advanced by ${ms} ms`);
    await this.#move(async () => {
      const end = this.#nowMs + ms;
      await this.#settle();
      while (await this.#fireNext(end)) {}
      this.#nowMs = end;
    });
  }

  /**
   * As after a standstill of the process: time is there at once, and what was due meanwhile happens then, in order. What comes
   * again and again comes once, so that a jump over days costs little.
   */
  async jump(ms: number): Promise<void> {
    if (!(ms >= 0)) throw new RangeError(`time cannot be advanced by ${ms} ms`);
    await this.#move(async () => {
      await this.#settle();
      this.#nowMs += ms;
      const end = this.#nowMs;
      while (await this.#fireNext(end)) {}
    });
  }

  /** Advances time, timer by timer, until the promise settles. Rejects if that takes longer than `withinMs`. */
  async run<T>(promise: Promise<T>, withinMs = 24 * 3600 * 1000): Promise<T> {
    let settled = false;
    const done = () => {
      settled = true;
    };
    promise.then(done, done);
    await this.#move(async () => {
      const end = this.#nowMs + withinMs;
      await this.#settle();
      while (!settled) {
        if (!(await this.#fireNext(end))) {
          throw new Error(
            `still waiting ${this.pending === 0 ? 'with no timer left' : `after ${withinMs} virtual ms`}`,
          );
        }
      }
    });
    return promise;
  }

  async #fireNext(end: number): Promise<boolean> {
    const first = this.#timers.front();
    if (first === undefined || first[0].atMs > end) return false;
    const [timer, callback] = first;
    this.#timers.eraseElementByKey(timer);
    this.#nowMs = Math.max(this.#nowMs, timer.atMs);
    callback();
    await this.#settle();
    return true;
  }

  async #move(steps: () => Promise<void>): Promise<void> {
    if (this.#moving) throw new Error('time is being moved already');
    this.#moving = true;
    try {
      await steps();
    } finally {
      this.#moving = false;
    }
  }
}

/** The state of a machine that outlives a process: its system clock and its boot. */
interface Machine {
  wallAheadMs: number;
  /** See `leapAtReading`. */
  leap: { readings: number; readonly ms: number } | undefined;
  boots: number;
  bootedAtMs: number;
  readonly name: string;
  readonly correction: number | undefined;
  readonly standstill: Standstill;
}

/** A process that is stopped for a while, for example by SIGSTOP. Callbacks that are due meanwhile run later, in order. */
class Standstill {
  readonly #time: VirtualTime;
  #waiting: (() => void)[] | undefined;

  constructor(time: VirtualTime) {
    this.#time = time;
  }

  get isOn(): boolean {
    return this.#waiting !== undefined;
  }

  begin(): void {
    this.#waiting ??= [];
  }

  end(): void {
    const waiting = this.#waiting ?? [];
    this.#waiting = undefined;
    for (const callback of waiting) this.#time.at(this.#time.now(), () => this.run(callback));
  }

  /** Ends the process while it is stopped. */
  drop(): void {
    this.#waiting = undefined;
  }

  run(callback: () => void): void {
    if (this.#waiting) this.#waiting.push(callback);
    else callback();
  }
}

export interface VirtualClockOptions {
  /** Shared by the machines of one simulation. Default: a time of its own. */
  readonly time?: VirtualTime;
  /** How far the machine's system clock is ahead of true time, in ms. Default 0. */
  readonly wallAheadMs?: number;
  /** Name of the machine in boot ids. */
  readonly machine?: string;
  /** See `SystemClockOptions`. Default: a thousandth. */
  readonly correction?: number;
}

/** The clock of one process on virtual time. `restart` and `reboot` return the clock of the next process on the machine. */
export class VirtualClock implements Clock {
  readonly time: VirtualTime;
  readonly #machine: Machine;
  readonly #corrected: CorrectedTime;
  readonly #cancels = new Set<CancelTimer>();
  #stopped = false;

  constructor(options: VirtualClockOptions = {}, machine?: Machine) {
    this.time = options.time ?? new VirtualTime();
    this.#machine = machine ?? {
      wallAheadMs: options.wallAheadMs ?? 0,
      leap: undefined,
      boots: 1,
      bootedAtMs: this.time.now(),
      name: options.machine ?? 'machine',
      correction: options.correction,
      standstill: new Standstill(this.time),
    };
    this.#corrected = new CorrectedTime(
      { wall: () => this.time.now() + this.#machine.wallAheadMs, monotonic: () => this.time.now() },
      this.#machine.correction,
    );
  }

  now(): Instant {
    return Math.floor(this.#corrected.now()) as Instant;
  }

  wall(): number {
    const { leap } = this.#machine;
    if (leap && --leap.readings <= 0) this.#leap(leap.ms);
    return this.time.now() + this.#machine.wallAheadMs;
  }

  at(instant: Instant, callback: () => void): CancelTimer {
    if (this.#stopped) return () => {};
    let cancelTimer: CancelTimer;
    const arm = (): void => {
      const at = this.time.now() + Math.ceil(this.#corrected.until(instant));
      cancelTimer = this.time.at(at as Instant, () => this.#machine.standstill.run(fire));
    };
    const fire = () => {
      // Another callback may have cancelled it after the standstill.
      if (!this.#cancels.has(cancel)) return;
      if (this.now() < instant) {
        arm();
        return;
      }
      this.#cancels.delete(cancel);
      callback();
    };
    const cancel = () => {
      this.#cancels.delete(cancel);
      cancelTimer();
    };
    this.#cancels.add(cancel);
    arm();
    return cancel;
  }

  mark(): ClockMark {
    return { instant: Math.ceil(this.#corrected.now()) as Instant, bootId: this.#bootId, uptimeMs: this.#uptimeMs };
  }

  resume(mark: ClockMark): void {
    if (this.#cancels.size > 0) throw new Error('resume comes before the first timer');
    if (mark.bootId === this.#bootId) this.#corrected.resume(mark.instant, this.#uptimeMs - mark.uptimeMs);
    else this.#corrected.set(Math.max(this.time.now() + this.#machine.wallAheadMs, mark.instant));
  }

  /** Advances true time, for all clocks that share it. */
  advance(ms: number): Promise<void> {
    return this.time.advance(ms);
  }

  /** Advances true time until the promise settles. */
  run<T>(promise: Promise<T>, withinMs?: number): Promise<T> {
    return this.time.run(promise, withinMs);
  }

  /** Sets the system clock of the machine forward, or back with a negative number. */
  stepWall(ms: number): void {
    this.#machine.wallAheadMs += ms;
  }

  /**
   * From its n-th reading on the system clock is ahead by this time, for a moment. A process sees this if it is stopped in
   * the middle of its work.
   */
  leapAtReading(readings: number, ms: number): void {
    this.#machine.leap = { readings, ms };
  }

  /** True time, for disks and networks outside the process. Their callbacks wait while the process is stopped. */
  get outside(): Pick<Clock, 'now' | 'at'> {
    const { time } = this;
    const { standstill } = this.#machine;
    return {
      now: () => time.now(),
      at: (instant, callback) => time.at(instant, () => standstill.run(callback)),
    };
  }

  /** Whether the process has ended. */
  get isStopped(): boolean {
    return this.#stopped;
  }

  get standsStill(): boolean {
    return this.#machine.standstill.isOn;
  }

  /** Stops the process, like SIGSTOP. Everything that is due meanwhile runs after `goOn`. */
  standStill(): void {
    this.#machine.standstill.begin();
  }

  goOn(): void {
    this.#machine.standstill.end();
  }

  /** Ends the process. Its timers do not fire any more. */
  stop(): void {
    this.#stopped = true;
    this.#machine.standstill.drop();
    for (const cancel of this.#cancels) cancel();
  }

  /** Ends the process. Returns the clock of the next process in the same boot. */
  restart(): VirtualClock {
    this.stop();
    return new VirtualClock({ time: this.time }, this.#machine);
  }

  /** Ends the process and the boot. Returns the clock of the first process in the next boot. */
  reboot(): VirtualClock {
    this.#machine.boots++;
    this.#machine.bootedAtMs = this.time.now();
    return this.restart();
  }

  #leap(ms: number): void {
    this.#machine.leap = undefined;
    this.stepWall(ms);
    this.time.at((this.time.now() + LEAP_MS) as Instant, () => this.stepWall(-ms));
  }

  get #bootId(): string {
    return `${this.#machine.name}/boot-${this.#machine.boots}`;
  }

  get #uptimeMs(): number {
    return this.time.now() - this.#machine.bootedAtMs;
  }
}
