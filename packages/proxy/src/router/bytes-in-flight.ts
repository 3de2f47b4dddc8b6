import { Refusal } from '@taskmaster/engine/domain';

const RETRY_MS = 100;

/** Limits the memory of large requests in flight. The number of small requests is limited for each connection. */
export class BytesInFlight {
  readonly #most: number;
  #bytes = 0;

  constructor(most: number) {
    this.#most = most;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Counts a request until the result is disposed. Throws a `Refusal` if there is no room. */
  take(bytes: number): Disposable {
    if (this.#bytes > 0 && this.#bytes + bytes > this.#most) {
      throw new Refusal(
        'OVERLOADED',
        `large requests in flight have ${this.#bytes} bytes; the limit is ${this.#most}`,
        {
          retryDelayMs: RETRY_MS,
          metadata: { limit: String(this.#most) },
        },
      );
    }
    this.#bytes += bytes;
    return {
      [Symbol.dispose]: () => {
        this.#bytes -= bytes;
      },
    };
  }
}
