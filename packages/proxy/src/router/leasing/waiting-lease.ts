import type { LeaseTasksRequest } from '@taskmaster/proto';
import type { Refusal } from '@taskmaster/server/domain';
import { sleep } from '@taskmaster/server/ports';
import { readEntries } from '../../upstream/raw-codec.ts';
import { isWorthRepeating } from '../routing/refusals.ts';
import type { RoutedCaller, Router } from '../routing/router.ts';
import { giveBack } from './give-back.ts';
import { askHolder, byHolder, encodeLease, type HeldQueues } from './held-queues.ts';
import { LinkedSignal } from './linked-signal.ts';

const NO_TASKS = new Uint8Array(0);

/**
 * One long poll at several nodes. The first node that has tasks ends it. The polls at the other nodes are cancelled, and tasks
 * that they still lease are released immediately.
 *  W1  At most one reply with tasks reaches the caller. The tasks of every other reply are released.
 *  W2  A node that does not answer is asked again until the wait is over. It does not end the wait at the other nodes.
 */
export class WaitingLease {
  readonly #router: Router;
  readonly #request: LeaseTasksRequest;
  readonly #until: number;
  readonly #caller: RoutedCaller;
  readonly #linked: LinkedSignal;
  readonly #over = Promise.withResolvers<Uint8Array>();
  /** The last refusal of each queue whose node did not answer. */
  readonly #troubles = new Map<string, Refusal>();

  /** `until`: end of the wait, by the router's clock. */
  constructor(router: Router, request: LeaseTasksRequest, until: number, caller: RoutedCaller) {
    this.#router = router;
    this.#request = request;
    this.#until = until;
    this.#caller = caller;
    this.#linked = new LinkedSignal(router, caller.signal);
  }

  async run(): Promise<Uint8Array> {
    // The cancelled polls release their tasks in the background.
    this.#waitAt(this.#request.queues).then(
      () => this.#end(),
      (thrown: unknown) => this.#over.reject(thrown),
    );
    try {
      return await this.#over.promise;
    } finally {
      this.#linked.abort();
      this.#linked[Symbol.dispose]();
    }
  }

  /** Ends the wait without tasks. */
  #end(): void {
    const [trouble] = this.#troubles.values();
    if (trouble === undefined || this.#router.isStopping || this.#caller.gone) this.#over.resolve(NO_TASKS);
    else this.#over.reject(trouble);
  }

  async #waitAt(queues: readonly string[]): Promise<void> {
    for (let attempt = 1; !this.#linked.signal.aborted; attempt++) {
      const [part, ...others] = byHolder(this.#router, queues);
      if (part === undefined) return;
      if (others.length > 0) {
        await Promise.all([part, ...others].map((each) => this.#waitAt(each.queues)));
        return;
      }
      const goOn = await this.#waitOnce(part);
      const pauseMs = this.#router.pauseMs(attempt);
      if (!goOn || this.#router.clock.now() + pauseMs >= this.#until) return;
      await sleep(this.#router.clock, pauseMs, this.#linked.signal).catch(() => {}); // If it was aborted, the loop ends.
    }
  }

  /** Polls one node. Resolves with true if the node should be asked again. */
  async #waitOnce(part: HeldQueues): Promise<boolean> {
    const router = this.#router;
    const outcome = await askHolder(router, part, this.#caller, {
      request: () => encodeLease(this.#request, part.queues, { waitMs: Math.max(0, this.#until - router.clock.now()) }),
      signal: this.#linked.signal,
    });
    if (outcome instanceof Uint8Array) {
      for (const queue of part.queues) this.#troubles.delete(queue);
      const tasks = readEntries(outcome);
      if (tasks.length === 0) return true; // The node ended the poll early, for example to drain, or the wait is over.
      if (this.#linked.signal.aborted) giveBack(router, tasks);
      else this.#win(outcome);
      return false;
    }
    if (this.#linked.signal.aborted) return false;
    if (!isWorthRepeating(outcome)) throw outcome;
    for (const queue of part.queues) this.#troubles.set(queue, outcome);
    return true;
  }

  #win(reply: Uint8Array): void {
    this.#linked.abort();
    this.#over.resolve(reply);
  }
}
