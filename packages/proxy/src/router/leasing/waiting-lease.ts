import type { Refusal } from '@taskmaster/engine/domain';
import { sleep } from '@taskmaster/engine/ports';
import type { LeaseTasksRequest, QueuePattern } from '@taskmaster/proto';
import { readEntries } from '../../upstream/raw-codec.ts';
import { isWorthRepeating } from '../routing/refusals.ts';
import type { RoutedCaller, Router } from '../routing/router.ts';
import { giveBack } from './give-back.ts';
import { askHolder, byHolder, encodeLease, type HeldQueues, type LeaseSources } from './held-queues.ts';
import { LinkedSignal } from './linked-signal.ts';

const NO_TASKS = new Uint8Array(0);

/** The last refusal of what could not be asked. */
type Troubles = Map<string | undefined, Refusal>;

/**
 * One long poll at several nodes. The first node that has tasks ends it. The polls at the other nodes are cancelled, and tasks
 * that they still lease are released immediately.
 *  W1  At most one reply with tasks reaches the caller. The tasks of every other reply are released.
 *  W2  A node that does not answer is asked again until the wait is over. It does not end the wait at the other nodes.
 *  W3  A pattern over all groups waits at every node, also at one that joins meanwhile.
 */
export class WaitingLease {
  readonly #router: Router;
  readonly #request: LeaseTasksRequest;
  readonly #overAll: readonly QueuePattern[];
  readonly #until: number;
  readonly #caller: RoutedCaller;
  readonly #linked: LinkedSignal;
  readonly #over = Promise.withResolvers<Uint8Array>();
  /** By queue, or by the group of a pattern: those whose node did not answer. */
  readonly #troubles: Troubles = new Map();
  /** By address: nodes that did not answer for the patterns over all groups. */
  readonly #silent: Troubles = new Map();
  /** Addresses of nodes where the patterns over all groups wait. */
  readonly #followed = new Set<string>();
  /** Polls that are not over. */
  #polls = 0;

  /** `request`: its queues are without duplicates. `until`: end of the wait, by the router's clock. */
  constructor(router: Router, request: LeaseTasksRequest, until: number, caller: RoutedCaller) {
    this.#router = router;
    this.#request = request;
    this.#overAll = request.patterns.filter(({ group }) => group === undefined);
    this.#until = until;
    this.#caller = caller;
    this.#linked = new LinkedSignal(router, caller.signal);
  }

  async run(): Promise<Uint8Array> {
    const { queues, patterns } = this.#request;
    // The cancelled polls release their tasks in the background.
    this.#begin(this.#waitAt({ queues, patterns: patterns.filter(({ group }) => group !== undefined) }));
    const follow = (): void => this.#followAll();
    const stopFollowing = this.#overAll.length === 0 ? undefined : this.#router.routes.onChange(follow);
    if (this.#overAll.length > 0) follow();
    try {
      return await this.#over.promise;
    } finally {
      stopFollowing?.();
      this.#linked.abort();
      this.#linked[Symbol.dispose]();
    }
  }

  /** The wait is over when all polls are. */
  #begin(poll: Promise<void>): void {
    this.#polls++;
    poll.then(
      () => {
        if (--this.#polls === 0) this.#end();
      },
      (thrown: unknown) => this.#over.reject(thrown),
    );
  }

  /** Ends the wait without tasks. */
  #end(): void {
    const isSilent = this.#silent.size > 0 && this.#silent.size === this.#followed.size;
    const [trouble] = [...this.#troubles.values(), ...(isSilent ? this.#silent.values() : [])];
    if (trouble === undefined || this.#router.isStopping || this.#caller.gone) this.#over.resolve(NO_TASKS);
    else this.#over.reject(trouble);
  }

  async #waitAt(sources: LeaseSources): Promise<void> {
    await this.#repeat(async () => {
      const [part, ...others] = byHolder(this.#router, sources);
      if (part === undefined) return false;
      if (others.length === 0) return this.#waitOnce(part, this.#troubles, namesOf(part));
      await Promise.all([part, ...others].map((each) => this.#waitAt(each)));
      return false;
    });
  }

  /** Waits with the patterns over all groups at the nodes where they do not wait yet. */
  #followAll(): void {
    for (const { address } of this.#router.routes.nodes()) {
      if (this.#followed.has(address)) continue;
      this.#followed.add(address);
      this.#begin(this.#follow(address));
    }
  }

  async #follow(address: string): Promise<void> {
    const { routes } = this.#router;
    await this.#repeat(async () => {
      if (!routes.nodes().some((node) => node.address === address)) {
        this.#followed.delete(address);
        this.#silent.delete(address);
        return false;
      }
      return this.#waitOnce({ address, queues: [], patterns: this.#overAll }, this.#silent, [address]);
    });
  }

  /** Polls until a poll says that it is the last, or the wait is over. */
  async #repeat(poll: () => Promise<boolean>): Promise<void> {
    for (let attempt = 1; !this.#linked.signal.aborted; attempt++) {
      const goOn = await poll();
      const pauseMs = this.#router.pauseMs(attempt);
      if (!goOn || this.#router.clock.now() + pauseMs >= this.#until) return;
      await sleep(this.#router.clock, pauseMs, this.#linked.signal).catch(() => {}); // If it was aborted, the loop ends.
    }
  }

  /** Polls one node. Resolves with true if the node should be asked again. */
  async #waitOnce(part: HeldQueues, troubles: Troubles, names: readonly (string | undefined)[]): Promise<boolean> {
    const router = this.#router;
    const outcome = await askHolder(router, part, this.#caller, {
      request: () => encodeLease(this.#request, part, { waitMs: Math.max(0, this.#until - router.clock.now()) }),
      signal: this.#linked.signal,
    });
    if (outcome instanceof Uint8Array) {
      for (const name of names) troubles.delete(name);
      const tasks = readEntries(outcome);
      if (tasks.length === 0) return true; // The node ended the poll early, for example to drain, or the wait is over.
      if (this.#linked.signal.aborted) giveBack(router, tasks);
      else this.#win(outcome);
      return false;
    }
    if (this.#linked.signal.aborted) return false;
    if (!isWorthRepeating(outcome)) throw outcome;
    for (const name of names) troubles.set(name, outcome);
    return true;
  }

  #win(reply: Uint8Array): void {
    this.#linked.abort();
    this.#over.resolve(reply);
  }
}

/** The queues, and the groups of the patterns. */
const namesOf = ({ queues, patterns }: LeaseSources): (string | undefined)[] => [
  ...queues,
  ...patterns.map(({ group }) => `${group}#`),
];
