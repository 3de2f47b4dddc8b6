import type { Instant } from './domain/ids.ts';
import type { EngineState } from './engine-state.ts';
import { isExpected } from './operations/expire.ts';
import type { Clock } from './ports/clock.ts';

/** Time for which what could not be swept is left alone, in ms: the store refuses writes, or rows are damaged. */
const FAILED_GAP_MS = 1000;

/** What a sweep removes or does because its time has come. */
export interface Sweep<T extends object> {
  /** Time between two looks, in ms. */
  readonly everyMs: number;
  /** No look before this instant finds anything, unless the state changes. Default: any look may. */
  next?(engineState: EngineState): Instant;
  /** How many are swept at once. Default 1. */
  readonly atOnce?: number;
  /** What is due now. It costs next to nothing when there is nothing. */
  due(engineState: EngineState): Iterable<T>;
  /** `goesOn`: false when nothing can be written any more. */
  sweep(engineState: EngineState, due: T, goesOn: () => boolean): Promise<void>;
  /** Whether an error needs no report: reads and requests report it. Default: see `isExpected`. */
  isExpected?(error: unknown): boolean;
}

export interface SweeperDeps {
  /** Undefined while nothing can be written. */
  readonly engineState: () => EngineState | undefined;
  readonly clock: Pick<Clock, 'now'>;
}

/** Looks in the background for what is due, and sweeps it. */
export class Sweeper<T extends object> {
  readonly #deps: SweeperDeps;
  readonly #sweep: Sweep<T>;
  /** What is left alone until then. */
  readonly #later = new WeakMap<T, number>();

  constructor(deps: SweeperDeps, sweep: Sweep<T>) {
    this.#deps = deps;
    this.#sweep = sweep;
  }

  /**
   * Sweeps all that is due. Call it again when it has ended. Rejects with the first error that was not expected. Undefined:
   * nothing is due.
   */
  look(): Promise<void> | undefined {
    const { engineState: writable, clock } = this.#deps;
    const engineState = writable();
    if (engineState === undefined) return undefined;
    const now = clock.now();
    const due = Array.from(this.#sweep.due(engineState)).filter((one) => (this.#later.get(one) ?? 0) <= now);
    return due.length === 0 ? undefined : this.#sweepAll(engineState, due);
  }

  async #sweepAll(engineState: EngineState, due: readonly T[]): Promise<void> {
    const { engineState: writable, clock } = this.#deps;
    const goesOn = (): boolean => writable() === engineState;
    const errors: unknown[] = [];
    let next = 0;
    const lane = async (): Promise<void> => {
      for (let one = due[next++]; one !== undefined && goesOn(); one = due[next++]) {
        try {
          await this.#sweep.sweep(engineState, one, goesOn);
        } catch (error) {
          this.#later.set(one, clock.now() + FAILED_GAP_MS);
          if (!(this.#sweep.isExpected ?? isExpected)(error)) errors.push(error);
        }
      }
    };
    await Promise.all(Array.from({ length: Math.min(this.#sweep.atOnce ?? 1, due.length) }, lane));
    if (errors.length > 0) throw errors[0];
  }
}
