import { Refusal } from '../domain/errors.ts';
import type { UpdateCommand } from './commands.ts';

/** Part of the bounds that is kept for requests that end work or keep leases alive. */
const KEPT_PART = 0.2;
const RETRY_DELAY_MS = 100;

/** Bounds the work in flight, before memory grows: what is refused costs next to nothing. */
export class Admission {
  readonly #maxRequests: number;
  readonly #maxBytes: number;
  #requests = 0;
  #bytes = 0;
  readonly #idle: (() => void)[] = [];

  constructor(bounds: { readonly maxInFlightRequests: number; readonly maxInFlightBytes: number }) {
    this.#maxRequests = bounds.maxInFlightRequests;
    this.#maxBytes = bounds.maxInFlightBytes;
  }

  get requests(): number {
    return this.#requests;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Runs the work if there is room for it; throws `OVERLOADED` if not. New work leaves room for what ends work. */
  async run<T>(kind: 'new' | 'ending', bytes: number, work: () => Promise<T>): Promise<T> {
    const part = kind === 'new' ? 1 - KEPT_PART : 1;
    // A request that is larger than the bound itself still gets its turn when it is alone.
    const tooMany = this.#requests >= this.#maxRequests * part;
    const tooMuch = this.#bytes > 0 && this.#bytes + bytes > this.#maxBytes * part;
    if (tooMany || tooMuch) {
      const what = tooMany ? `${this.#requests} requests` : `${this.#bytes} bytes`;
      throw new Refusal('OVERLOADED', `${what} are in flight already`, { retryDelayMs: RETRY_DELAY_MS });
    }
    this.#requests++;
    this.#bytes += bytes;
    try {
      return await work();
    } finally {
      this.#requests--;
      this.#bytes -= bytes;
      if (this.#requests === 0) for (const wake of this.#idle.splice(0)) wake();
    }
  }

  /** Resolves when nothing is in flight. */
  idle(): Promise<void> {
    if (this.#requests === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }
}

/** Bytes that a request keeps in memory until it is answered, about. */
export function weightOf({ enqueue, dequeue, renew, release }: UpdateCommand): number {
  let bytes = 64 * (dequeue.length + renew.length + release.length);
  for (const { pid, data } of enqueue) bytes += 64 + (pid?.length ?? 0) + data.byteLength;
  return bytes;
}
