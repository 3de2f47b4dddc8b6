import type { Partitions } from '@taskmaster/engine';
import { type PartitionId, Refusal } from '@taskmaster/engine/domain';
import { type Clock, type Log, sleep } from '@taskmaster/engine/ports';
import { isRemoved, ringMembers } from '@taskmaster/server/cluster-view';
import type { Knowledge } from '../knowledge/knowledge.ts';
import type { HandOffs } from '../placement/handoff/hand-offs.ts';
import type { MemberStore } from './member-store.ts';

export interface LeavingDeps {
  readonly nodeId: string;
  readonly partitions: Partitions;
  readonly knowledge: Knowledge;
  readonly memberStore: Pick<MemberStore, 'readFarewell' | 'writeFarewell'>;
  readonly handOffs: Pick<HandOffs, 'refuseArrivals' | 'acceptArrivals'>;
  readonly log: Log;
  readonly exchange: (nodeId: string) => Promise<boolean>;
  readonly clock: Clock;
  /** Tells the other members that this node has left, until an active one has stored it. False if none did. */
  readonly tellLeft: () => Promise<boolean>;
}

const TELL_RETRY_MS = 500;

/**
 * Lets this node leave in good order: it sets its record to `leaving`, so the ring assigns its partitions to other members.
 * When all are handed over it tells an active member that it has left, and sets its record to `left`.
 *
 *  L1  A member that has left stays left, for every node that has heard of it. So this node can stay only while no other node
 *      can have heard of it.
 *  L2  Before the first other member is told, a farewell is on the disk of this node. From then on, also after a crash, this
 *      node goes on leaving.
 */
export class Leaving {
  readonly #deps: LeavingDeps;
  readonly #done = Promise.withResolvers<void>();
  readonly #stopping = new AbortController();
  /** Ends the work that is under way, because this node stays. Undefined: none is. */
  #under: AbortController | undefined;
  /** Beginnings and ends of drains take turns. */
  #turn: Promise<unknown> = Promise.resolve();
  #saysFarewell = false;
  #endsWithProcess = false;

  constructor(deps: LeavingDeps) {
    this.#deps = deps;
  }

  /** Resolves when all partitions are handed over and the other members were told. Never resolves for a removed node. */
  get done(): Promise<void> {
    return this.#done.promise;
  }

  /** Resolves when the state `leaving` is durable; idempotent. */
  begin(): Promise<void> {
    return this.#inTurn(async () => {
      const { knowledge, nodeId } = this.#deps;
      const { self, members } = knowledge;
      if (self?.state === 'left') throw hasLeft(self.name);
      if (!ringMembers(members).some((id) => id !== nodeId)) {
        throw new Refusal('LAST_MEMBER', 'no other active member could take its partitions');
      }
      await knowledge.changeSelf({ state: 'leaving' });
      this.goOn();
    });
  }

  /** Continues to leave; called at a start too, if the last run was leaving. */
  goOn(): void {
    if (this.#under) return;
    const under = new AbortController();
    this.#under = under;
    this.#finish(AbortSignal.any([under.signal, this.#stopping.signal])).catch((error: unknown) => {
      if (this.#under === under) this.#under = undefined;
      // After a stop, the next start continues.
      if (this.#stopping.signal.aborted || under.signal.aborted) return;
      this.#deps.log.error({ err: error }, 'this node could not leave the cluster');
    });
  }

  /** Lets this node stay. Resolves when that is durable. Has no effect if this node is not leaving. */
  cancel(): Promise<void> {
    return this.#inTurn(async () => {
      const { knowledge, memberStore, handOffs, nodeId, log } = this.#deps;
      const isTold = await memberStore.readFarewell(nodeId);
      const { self } = knowledge;
      if (self === undefined || self.state === 'left') throw hasLeft(self?.name ?? nodeId);
      if (self.state !== 'leaving') return;
      if (isTold || this.#saysFarewell) {
        throw new Refusal('MEMBER_LEFT', `member ${self.name} has handed everything over, and leaves`);
      }
      if (this.#endsWithProcess) {
        const message = `the process of member ${self.name} was told to stop: start it again, then let it stay`;
        throw new Refusal('SHUTTING_DOWN', message);
      }
      this.#under?.abort();
      this.#under = undefined;
      try {
        await knowledge.changeSelf({ state: 'active' });
      } catch (error) {
        this.goOn();
        throw error;
      }
      handOffs.acceptArrivals();
      log.info({}, 'this node stays: its drain was taken back');
    });
  }

  /** Call this when the process is to end with the drain: then this node cannot stay. */
  endsWithProcess(): void {
    this.#endsWithProcess = true;
  }

  stop(): void {
    this.#stopping.abort(new Refusal('SHUTTING_DOWN', 'the node is shutting down'));
  }

  /** `signal`: this node stays, or its process stops. It has no effect once the farewell is said. */
  async #finish(signal: AbortSignal): Promise<void> {
    const { knowledge, memberStore, handOffs, nodeId, exchange, tellLeft, clock, log } = this.#deps;
    // Other nodes may still think that this node is active, and send it partitions.
    await handOffs.refuseArrivals();
    await this.#emptied(signal);
    signal.throwIfAborted();
    this.#saysFarewell = true;
    await memberStore.writeFarewell(nodeId);
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

  #emptied(signal: AbortSignal): Promise<void> {
    const { partitions } = this.#deps;
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
      if (signal.aborted) onAbort();
      else look();
    });
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => {});
    return done;
  }
}

const hasLeft = (name: string): Refusal => new Refusal('MEMBER_LEFT', `member ${name} has left already`);

function holdsAny(partitions: Partitions): boolean {
  for (let id = 0; id < partitions.count; id++) if (partitions.holds(id as PartitionId)) return true;
  return false;
}
