import { status } from '@grpc/grpc-js';
import { CONTEXT } from '../../tasks/context.ts';
import type { TaskMasterError } from '../../values/errors.ts';
import { backoffBound } from '../../values/retry.ts';
import type { Queue } from '../queue.ts';
import type { ShardedQueue } from '../shards/sharded-queue.ts';

/** A queue that gets a part of the enqueues. */
export type SpreadTarget<T, In = T> = Queue<T, In> | ShardedQueue<T, In>;

/** What is known of a target. */
export interface TargetState<T, In = T> {
  readonly queue: SpreadTarget<T, In>;
  /** Whether enqueues are sent there now. */
  readonly isUp: boolean;
  /** Why the last enqueue failed there. Undefined: none has failed since the last one that succeeded. */
  readonly error: TaskMasterError | undefined;
}

/** How long a target is left alone after it has failed, in ms. Doubles with each failure. */
const REST_INITIAL_MS = 1_000;
const REST_MAX_MS = 30_000;

/**
 * A target, and whether it is up. After a failure it rests; then one enqueue tries it, and the others as soon as that
 * succeeds.
 */
export class Target<T, In> {
  readonly queue: SpreadTarget<T, In>;
  readonly #now: () => number;
  readonly #random: () => number;
  #failures = 0;
  #restsUntil = Number.NEGATIVE_INFINITY;
  #error: TaskMasterError | undefined;

  constructor(queue: SpreadTarget<T, In>, now: () => number, random: () => number) {
    this.queue = queue;
    this.#now = now;
    this.#random = random;
  }

  get isUp(): boolean {
    return this.#now() >= this.#restsUntil && (this.queue[CONTEXT].calls.transport.isUp ?? true);
  }

  get state(): TargetState<T, In> {
    return { queue: this.queue, isUp: this.isUp, error: this.#error };
  }

  /** Call it before an attempt of up to this time, in ms. */
  trying(ms: number): void {
    // Meanwhile other enqueues go elsewhere, if this is the first attempt after a rest.
    if (this.#failures > 0) this.#restsUntil = this.#now() + ms;
  }

  succeeded(): void {
    this.#failures = 0;
    this.#restsUntil = Number.NEGATIVE_INFINITY;
    this.#error = undefined;
  }

  /** The attempt said nothing about the target: the next one is the first after the rest. */
  wasNotTried(): void {
    if (this.#failures > 0) this.#restsUntil = this.#now();
  }

  failed(error: TaskMasterError): void {
    this.#error = error;
    const bound = backoffBound(++this.#failures, REST_INITIAL_MS, REST_MAX_MS);
    // Half of it at least: a short rest would cost the next caller the same wait again.
    const restMs = bound * (0.5 + this.#random() / 2);
    this.#restsUntil = this.#now() + Math.max(restMs, error.retryDelayMs ?? 0);
  }
}

const elsewhere: ReadonlySet<number> = new Set([
  status.UNAVAILABLE,
  status.RESOURCE_EXHAUSTED,
  status.DEADLINE_EXCEEDED,
  status.INTERNAL,
  status.DATA_LOSS,
]);

/** Whether another target may accept what this one has not: it is down, overloaded, full, broken or silent. */
export const isOfTarget = ({ code, retryable }: TaskMasterError): boolean => retryable || elsewhere.has(code);
