import { Refusal } from '../domain/refusal.ts';
import type { Clock } from '../ports/clock.ts';

/** How long names are matched before other requests have their turn, in ms. The last name may take longer. */
const SLICE_MS = 4;
/** Pauses are longer than the slices before them by this factor, so that slow expressions leave most of the time to others. */
const PAUSE_FACTOR = 4;
/** How long the names of one request may be matched in all, in ms. Simple expressions take 1 ms for 1,000 names. */
const BUDGET_MS = 500;
/** Requests that need more than one slice at the same time. */
const MOST_SLOW = 32;
const RETRY_DELAY_MS = 1_000;

type Matches = (fullName: string) => boolean;

export interface NameMatchingDeps {
  readonly clock: Pick<Clock, 'now'>;
  /** Resolves after this number of ms, when other requests have had their turn. */
  readonly pause: (ms: number) => Promise<void>;
}

/**
 * Matches names of queues with the regular expressions of requests. Some expressions need milliseconds for a name, so a request
 * matches in slices and has a budget. The requests that need more than one slice take turns, slice by slice: a request with a
 * quick expression does not wait until a slow one is through.
 */
export class NameMatching {
  readonly #deps: NameMatchingDeps;
  /** Ends when the next request may match a slice. */
  #turns: Promise<void> = Promise.resolve();
  /** Requests that need more than one slice. */
  #slow = 0;

  constructor(deps: NameMatchingDeps) {
    this.#deps = deps;
  }

  /**
   * Matches names, and returns a function that knows the results. It matches other names at once, at the cost of the same
   * budget. Names are taken until `names` ends; it learns the result of each. Throws a `Refusal` when the budget is used up.
   * @param field where the request has the expression.
   */
  async prepare(
    matches: Matches,
    names: Generator<string, void, boolean>,
    field = 'filter.name_regex',
  ): Promise<Matches> {
    const known = new Map<string, boolean>();
    let spentMs = 0;
    let isSlow = false;
    const spend = (ms: number): void => {
      spentMs += ms;
      if (spentMs > BUDGET_MS) throw tooSlow(known.size, field);
    };
    try {
      let began = this.#deps.clock.now();
      for (let next = names.next(); !next.done; ) {
        const isMatch = known.get(next.value) ?? matches(next.value);
        known.set(next.value, isMatch);
        const elapsedMs = this.#deps.clock.now() - began;
        if (elapsedMs >= SLICE_MS) {
          spend(elapsedMs);
          if (!isSlow) this.#enter();
          isSlow = true;
          await this.#turn(elapsedMs * PAUSE_FACTOR);
          began = this.#deps.clock.now();
        }
        next = names.next(isMatch);
      }
    } finally {
      if (isSlow) this.#slow--;
    }
    return (name) => {
      const result = known.get(name);
      if (result !== undefined) return result;
      const began = this.#deps.clock.now();
      const isMatch = matches(name);
      known.set(name, isMatch);
      spend(this.#deps.clock.now() - began);
      return isMatch;
    };
  }

  #enter(): void {
    if (this.#slow >= MOST_SLOW) {
      const message = `${MOST_SLOW} requests with slow regular expressions are served already`;
      throw new Refusal('OVERLOADED', message, { retryDelayMs: RETRY_DELAY_MS });
    }
    this.#slow++;
  }

  /** Resolves after the turns of those that came before, and after this pause. */
  #turn(pauseMs: number): Promise<void> {
    this.#turns = this.#turns.then(() => this.#deps.pause(pauseMs));
    return this.#turns;
  }
}

function tooSlow(names: number, field: string): Refusal {
  const message = `${field} takes more than ${BUDGET_MS} ms for ${names} names of queues: simplify it, or name a group`;
  return new Refusal('INVALID_REGEX', message, { metadata: { field, limit: String(BUDGET_MS) } });
}
