import type { V1Probe } from '@kubernetes/client-node';

/** Counts results of one probe in a row, and says when its verdict is reached. */
export class ProbeCounter {
  readonly #needed: { readonly success: number; readonly failure: number };
  #last: 'success' | 'failure' | undefined;
  #inARow = 0;

  constructor({ successThreshold = 1, failureThreshold = 3 }: Pick<V1Probe, 'successThreshold' | 'failureThreshold'>) {
    this.#needed = { success: successThreshold, failure: failureThreshold };
  }

  /** Returns the verdict if enough results in a row agree, undefined otherwise. */
  record(result: 'success' | 'failure'): 'success' | 'failure' | undefined {
    this.#inARow = result === this.#last ? this.#inARow + 1 : 1;
    this.#last = result;
    return this.#inARow >= this.#needed[result] ? result : undefined;
  }
}
