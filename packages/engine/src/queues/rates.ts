import type { QueueOperations } from '../domain/commands.ts';
import type { Instant } from '../domain/ids.ts';

/** Time constant of the averages: about a minute. */
const TAU_MS = 60_000;

/** Counts events: all of them, and per second as an exponential average. Not durable. */
export class RateMeter {
  #total = 0;
  #events = 0;
  #at: number | undefined;

  count(events: number, now: Instant): void {
    this.#total += events;
    this.#decay(now);
    this.#events += events;
  }

  /** Number of all events so far. */
  get total(): number {
    return this.#total;
  }

  perSecond(now: Instant): number {
    this.#decay(now);
    return this.#events / (TAU_MS / 1000);
  }

  #decay(now: Instant): void {
    if (this.#at !== undefined && now > this.#at) this.#events *= Math.exp((this.#at - now) / TAU_MS);
    this.#at = now;
  }
}

/** Weight of a new value in the mean. */
const WEIGHT = 0.05;

/** Rates and the mean lease of a queue (the paper, 3.5). Not durable. Meters are made on demand: most queues need few. */
export class QueueRates {
  #enqueue: RateMeter | undefined;
  #lease: RateMeter | undefined;
  #complete: RateMeter | undefined;
  #failure: RateMeter | undefined;
  #meanLeaseMs: number | undefined;
  #deadLettered = 0;
  #waitedMs = 0;
  #workedMs = 0;

  enqueued(now: Instant): void {
    this.#enqueue ??= new RateMeter();
    this.#enqueue.count(1, now);
  }

  leased(now: Instant, waitedMs: number): void {
    this.#lease ??= new RateMeter();
    this.#lease.count(1, now);
    this.#waitedMs += waitedMs;
  }

  /** An attempt failed. */
  failed(now: Instant): void {
    this.#failure ??= new RateMeter();
    this.#failure.count(1, now);
  }

  deadLettered(): void {
    this.#deadLettered++;
  }

  completed(now: Instant): void {
    this.#complete ??= new RateMeter();
    this.#complete.count(1, now);
  }

  leaseLasted(ms: number): void {
    this.#workedMs += ms;
    this.#meanLeaseMs = this.#meanLeaseMs === undefined ? ms : this.#meanLeaseMs + WEIGHT * (ms - this.#meanLeaseMs);
  }

  /** Enqueues per second. */
  enqueueRate(now: Instant): number {
    return this.#enqueue?.perSecond(now) ?? 0;
  }

  leaseRate(now: Instant): number {
    return this.#lease?.perSecond(now) ?? 0;
  }

  completeRate(now: Instant): number {
    return this.#complete?.perSecond(now) ?? 0;
  }

  failureRate(now: Instant): number {
    return this.#failure?.perSecond(now) ?? 0;
  }

  get operations(): QueueOperations {
    return {
      enqueued: this.#enqueue?.total ?? 0,
      leased: this.#lease?.total ?? 0,
      completed: this.#complete?.total ?? 0,
      failed: this.#failure?.total ?? 0,
      deadLettered: this.#deadLettered,
      waitedMs: this.#waitedMs,
      workedMs: this.#workedMs,
    };
  }

  get meanLeaseMs(): number {
    return this.#meanLeaseMs ?? 0;
  }
}
