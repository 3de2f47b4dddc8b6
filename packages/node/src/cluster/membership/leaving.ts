import { isRemoved, ringMembers } from '@taskmaster/server/cluster-view';
import { type PartitionId, Refusal } from '@taskmaster/server/domain';
import { type Clock, type Log, sleep } from '@taskmaster/server/ports';
import type { Partitions } from '../../engine/partitions/partitions.ts';
import type { Knowledge } from '../knowledge/knowledge.ts';

export interface LeavingDeps {
  readonly nodeId: string;
  readonly partitions: Partitions;
  readonly knowledge: Knowledge;
  readonly log: Log;
  readonly exchange: (nodeId: string) => Promise<boolean>;
  readonly clock: Clock;
  /** Has another member know, durably, that this one has left; whether one does. */
  readonly tellLeft: () => Promise<boolean>;
  /** See `HandOffs`. */
  readonly refuseArrivals: () => Promise<void>;
}

const TELL_RETRY_MS = 500;

/** How a node leaves in good order: its record says so, the ring without it has everything handed over, and it is gone. */
export class Leaving {
  readonly #deps: LeavingDeps;
  readonly #done = Promise.withResolvers<void>();
  readonly #stopping = new AbortController();
  #under: Promise<void> | undefined;

  constructor(deps: LeavingDeps) {
    this.#deps = deps;
  }

  /** Resolves when everything is handed over and the others were told. Never for a node that was given up. */
  get done(): Promise<void> {
    return this.#done.promise;
  }

  /** Resolves when it is durable that the node leaves; harmless when repeated. */
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

  /** Where the last run was leaving, too. */
  goOn(): void {
    this.#under ??= this.#finish().catch((error: unknown) => {
      this.#under = undefined;
      // The next start goes on with it.
      if (!this.#stopping.signal.aborted) this.#deps.log.error({ err: error }, 'this node could not leave the cluster');
    });
  }

  stop(): void {
    this.#stopping.abort(new Refusal('SHUTTING_DOWN', 'the node is shutting down'));
  }

  async #finish(): Promise<void> {
    const { knowledge, exchange, refuseArrivals, tellLeft, clock, log } = this.#deps;
    // Others may still think that this node is active, and send it what it would take along.
    await refuseArrivals();
    await this.#emptied();
    // A member that only itself knew to have left would not start again, and the others would wait for it for ever.
    while (knowledge.self?.state === 'leaving' && !(await tellLeft())) {
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
