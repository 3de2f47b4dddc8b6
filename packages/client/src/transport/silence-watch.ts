import type { CancelTimer, Timing } from './timing.ts';

/** Longest silence that is not suspicious, in ms. Longer than most pauses of a busy node. */
const MOST_MS = 2_500;
/** Part of the timeout of a call after which silence is suspicious. The rest is for another connection. */
const PART = 1 / 4;

/** Notices that nothing is heard on a connection although an answer is due. */
export class SilenceWatch {
  readonly #timing: Timing;
  readonly #onSilent: () => void;
  /** When silence becomes suspicious. Undefined: no answer is due. */
  #suspectAt: number | undefined;
  #cancelTimer: CancelTimer | undefined;

  constructor(timing: Timing, onSilent: () => void) {
    this.#timing = timing;
    this.#onSilent = onSilent;
  }

  /** Call it when a call is sent whose answer is due at once. */
  sent(timeoutMs: number | undefined): void {
    if (this.#suspectAt !== undefined) return;
    const patienceMs = Math.min(MOST_MS, (timeoutMs ?? Number.POSITIVE_INFINITY) * PART);
    this.#suspectAt = this.#timing.now() + patienceMs;
    this.#cancelTimer ??= this.#timing.after(patienceMs, () => this.#look());
  }

  /** Call it for everything that is received. It leaves the timer alone, because most calls are answered soon. */
  heard(): void {
    this.#suspectAt = undefined;
  }

  /** Nothing is due any more. */
  stop(): void {
    this.#suspectAt = undefined;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  #look(): void {
    this.#cancelTimer = undefined;
    if (this.#suspectAt === undefined) return;
    const leftMs = this.#suspectAt - this.#timing.now();
    if (leftMs > 0) {
      this.#cancelTimer = this.#timing.after(leftMs, () => this.#look());
      return;
    }
    this.#suspectAt = undefined;
    this.#onSilent();
  }
}
