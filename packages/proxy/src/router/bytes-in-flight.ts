import { Refusal } from '@taskmaster/server/domain';

const RETRY_MS = 100;

/** Bounds the memory of requests being served. Small ones, which are many, are bounded by their connections. */
export class BytesInFlight {
  readonly #most: number;
  #bytes = 0;

  constructor(most: number) {
    this.#most = most;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Counts a request until it is disposed of. Throws a `Refusal` where there is no room. */
  take(bytes: number): Disposable {
    if (this.#bytes > 0 && this.#bytes + bytes > this.#most) {
      throw new Refusal('OVERLOADED', `requests of ${this.#bytes} bytes are in flight: at most ${this.#most}`, {
        retryDelayMs: RETRY_MS,
        metadata: { limit: String(this.#most) },
      });
    }
    this.#bytes += bytes;
    return {
      [Symbol.dispose]: () => {
        this.#bytes -= bytes;
      },
    };
  }
}
