import type { Clock, SharedNode } from '@taskmaster/engine/ports';

/** A node that the store has not heard of for this time is gone, in ms. Living nodes tell the store each second. */
const SILENT_MS = 3_000;
/** While this node itself could not read for longer, no other node could tell the store anything, perhaps. */
const LONGEST_GAP_MS = 2_000;

/** Finds the nodes that the store does not hear of. Counts only time in which this node has reached the store itself. */
export class SilentNodes {
  readonly #clock: Pick<Clock, 'now'>;
  /** By name: when the node was last heard, by the clock of the store, and since when this node knows that, by its own. */
  readonly #heard = new Map<string, { readonly seenAt: number; readonly since: number }>();
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /** Call this with each answer of the store. */
  saw(nodes: Iterable<SharedNode>): void {
    const now = this.#clock.now();
    if (now - this.#readAt > LONGEST_GAP_MS) this.#heard.clear();
    this.#readAt = now;
    for (const { name, seenAt } of nodes) {
      if (this.#heard.get(name)?.seenAt !== seenAt) this.#heard.set(name, { seenAt, since: now });
    }
  }

  isSilent(name: string): boolean {
    const heard = this.#heard.get(name);
    return heard !== undefined && this.#readAt - heard.since >= SILENT_MS;
  }
}
