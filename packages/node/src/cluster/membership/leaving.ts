import type { Partitions } from '@taskmaster/engine';
import { type PartitionId, Refusal } from '@taskmaster/engine/domain';
import { type Clock, type Log, sleep } from '@taskmaster/engine/ports';
import { isRemoved, ringMembers } from '@taskmaster/server/cluster-view';
import type { Knowledge } from '../knowledge/knowledge.ts';

export interface LeavingDeps {
  readonly nodeId: string;
  readonly partitions: Partitions;
  readonly knowledge: Knowledge;
  readonly log: Log;
  readonly exchange: (nodeId: string) => Promise<boolean>;
  readonly clock: Clock;
  /** Tells the other members that this node has left, until an active one has stored it. False if none did. */
  readonly tellLeft: () => Promise<boolean>;
  /** See `HandOffs`. */
  readonly refuseArrivals: () => Promise<void>;
}

const TELL_RETRY_MS = 500;

/**
 * Lets this node leave in good order: it sets its record to `leaving`, so the ring assigns its partitions to other members.
 * When all are handed over it sets its record to `left`.
 */
export class Leaving {
  readonly #deps: LeavingDeps;
  readonly #done = Promise.withResolvers<void>();
  readonly #stopping = new AbortController();
  #under: Promise<void> | undefined;

  constructor(deps: LeavingDeps) {
    this.#deps = deps;
  }

  /** Resolves when all partitions are handed over and the other members were told. Never resolves for a removed node. */
  get done(): Promise<void> {
    return this.#done.promise;
  }

  /** Resolves when the state `leaving` is durable; idempotent. */
  async begin(): Promise<void> {
    const { knowledge, nodeId } = this.#deps;
    const { self, members } = knowledge;
    if (self?.state === 'left') throw new Refusal('MEMBER_LEFT', `member ${self.name} has left already`);
    if (!ringMembers(members).some((id) => id !== nodeId)) {
      throw new Refusal('LAST_MEMBER', 'no other active member could take its partitions');
    }
    await knowledge.changeSelf({ state: 'leaving' });
    this.goOn();
  }

  /** Continues to leave; called at a start too, if the last run was leaving. */
  goOn(): void {
    this.#under ??= this.#finish().catch((error: unknown) => {
      this.#under = undefined;
      // After a stop, the next start continues.
      if (!this.#stopping.signal.aborted) this.#deps.log.error({ err: error }, 'this node could not leave the cluster');
    });
  }

  stop(): void {
    this.#stopping.abort(new Refusal('SHUTTING_DOWN', 'the node is shutting down'));
  }

  async #finish(): Promise<void> {
    const { knowledge, exchange, refuseArrivals, tellLeft, clock, log } = this.#deps;
    // Other nodes may still think that this node is active, and send it partitions.
    await refuseArrivals();
    await this.#emptied();
    // If only this node knew that it left, the others would wait for it forever, because it does not start again.
    while (!isRemoved(knowledge.self) && !(await tellLeft())) {
      await sleep(clock, TELL_RETRY_MS, this.#stopping.signal);
    }
    await knowledge.changeSelf({ state: 'left' });
    if (isRemoved(knowledge.self)) return;
    await Promise.all(knowledge.others.map(({ nodeId }) => exchange(nodeId)));
    log.info({}, 'this node has left the cluster');
    this.#done.resolve();
  }

  #emptied(): Promise<void> {
    const { partitions } = this.#deps;
    const { signal } = this.#stopping;
    return new Promise((resolve, reject) => {
      const look = (): void => {
        if (holdsAny(partitions)) return;
        end();
        resolve();
      };
      const onAbort = (): void => {
        end();
        reject(signal.reason);
      };
      const stop = partitions.onChange(look);
      const end = (): void => {
        stop();
        signal.removeEventListener('abort', onAbort);
      };
      signal.addEventListener('abort', onAbort, { once: true });
      look();
    });
  }
}

function holdsAny(partitions: Partitions): boolean {
  for (let id = 0; id < partitions.count; id++) if (partitions.holds(id as PartitionId)) return true;
  return false;
}
