import { type Instant, type PartitionId, Refusal } from '@taskmaster/engine/domain';
import type { Clock, Log } from '@taskmaster/engine/ports';
import { type InventoryEntry, type LostPartition, PartitionState, type RemoveMemberResponse } from '@taskmaster/proto';
import {
  deciderWithout,
  EXCHANGE_TIMEOUT_MS,
  type HolderView,
  type MemberRecord,
  type Members,
} from '@taskmaster/server/cluster-view';
import type { CallPeer, Membership } from '@taskmaster/server/ports';
import { reasonOfSilence } from './silence.ts';

export interface RemovalDeps {
  readonly clusterId: string;
  readonly nodeId: string;
  readonly clock: Clock;
  readonly membership: Membership;
  readonly call: CallPeer<'inventory' | 'removeMembers'>;
  readonly log: Log;
  readonly view: HolderView;
  readonly members: () => Members;
  readonly addressOf: (nodeId: string) => string | undefined;
  /** Exchanges knowledge with the member; true if it answered. */
  readonly exchange: (nodeId: string) => Promise<boolean>;
  /** The other members whose answers are needed. */
  readonly toHear: () => readonly string[];
  readonly ownInventory: () => readonly InventoryEntry[];
  /** Whether this node restarted or paused moments ago, and no member has confirmed it since; see `CommitGuard`. */
  readonly isSearching: () => boolean;
  /** Stores the records durably, all or none. */
  readonly adopt: (records: readonly MemberRecord[]) => Promise<void>;
  /** The listener is called when knowledge of members or holders changes. */
  readonly onChange: (listener: () => void) => () => void;
  readonly stopping: AbortSignal;
  /** True if nodes share a store: then other members take the partitions over, and nothing is lost. */
  readonly isShared: boolean;
}

export interface RemovalOptions {
  /** True: remove the members; the partitions that only they held are lost. False: only report what would be lost. */
  readonly acceptLoss: boolean;
  /** Longest wait until the lost partitions are served again, empty, in ms. 0: do not wait. */
  readonly waitMs: number;
}

type Answers = ReadonlyMap<string, readonly InventoryEntry[] | undefined>;

const FORWARD_TIMEOUT_MS = 8_000;
const MOST_WAIT_MS = 60_000;

/**
 * Removes members that will not return, all named members in one step. All other members must answer, so two members that
 * do not answer can only be removed together. One node decides for the cluster, so that two operators at two nodes cannot
 * contradict each other. The partitions of the removed members are claimed afterwards, see `Orphans`.
 *
 * The deciding node may not know a member that joined while it was down. If the removed member is the only one that could
 * tell, the deciding node could take back or claim a partition that the unknown member holds. So a node that has just
 * restarted waits until a member confirms it, or until the others had time to find it. If they are cut off from each other
 * for longer, both serve the partition until they meet. Then the later epoch counts, and at one epoch the larger node id.
 */
export class Removal {
  readonly #deps: RemovalDeps;

  constructor(deps: RemovalDeps) {
    this.#deps = deps;
  }

  /** Lets the deciding node remove the members: this node or another one. */
  async remove(nodeIds: readonly string[], { acceptLoss, waitMs }: RemovalOptions): Promise<RemoveMemberResponse> {
    for (const nodeId of nodeIds) this.#target(nodeId);
    const decider = deciderWithout(this.#deps.members(), nodeIds);
    if (decider === undefined) throw new Refusal('LAST_MEMBER', 'no other active member could take its partitions');
    const isHere = decider === this.#deps.nodeId;
    const answer = await (isHere ? this.removeHere(nodeIds, acceptLoss) : this.#forward(decider, nodeIds, acceptLoss));
    if (!answer.removed || waitMs === 0) return answer;
    // The deciding node may know more by now than this one.
    if (!isHere && !(await this.#deps.exchange(decider))) return answer;
    return { ...answer, claimed: await this.#areServedAgain(answer.lost, nodeIds, Math.min(waitMs, MOST_WAIT_MS)) };
  }

  async #forward(decider: string, nodeIds: readonly string[], acceptLoss: boolean): Promise<RemoveMemberResponse> {
    const { call, clusterId, addressOf } = this.#deps;
    const [nodeId = '', ...also] = nodeIds;
    const address = addressOf(decider);
    try {
      if (address === undefined) throw new Error('its address is not known');
      const request = { clusterId, nodeId, also, acceptLoss };
      return await call(address, 'removeMembers', request, { timeoutMs: FORWARD_TIMEOUT_MS });
    } catch (error) {
      if (error instanceof Refusal) throw error;
      throw this.#unreachable([decider], error);
    }
  }

  /** Runs at the deciding node. */
  async removeHere(nodeIds: readonly string[], acceptLoss: boolean): Promise<RemoveMemberResponse> {
    const { log, members, adopt, toHear, exchange } = this.#deps;
    for (const nodeId of nodeIds) this.#target(nodeId);
    // Also asks the members to be removed: gossip may be wrong about who is alive.
    const asked = nodeIds.map(async (nodeId) => ((await exchange(nodeId)) ? [nodeId] : []));
    const [answers, answering] = await Promise.all([this.#hear(this.#others(nodeIds)), Promise.all(asked)]);
    // The answers may have changed the records, so the targets are read again.
    const targets = nodeIds.map((nodeId) => this.#target(nodeId));
    const alive = targets.find(({ nodeId }) => answering.flat().includes(nodeId));
    if (alive) throw this.#alive(alive);
    if (deciderWithout(members(), nodeIds) !== this.#deps.nodeId) {
      throw new Refusal('HOLDER_UNREACHABLE', 'the members do not agree yet on who decides: try again', {
        retryDelayMs: 1_000,
      });
    }
    const silent = this.#others(nodeIds).filter((other) => answers.get(other) === undefined);
    if (silent.length > 0) throw this.#unreachable(silent);
    if (this.#deps.isSearching()) {
      const message = 'the deciding node has just restarted and looks for members that joined meanwhile: try again';
      throw new Refusal('STARTING', message, { retryDelayMs: 1_000 });
    }
    const takenBackBy = this.#nodesThatTakeBack(nodeIds, answers);
    const { isShared } = this.#deps;
    const lost = isShared ? [] : this.#heldBy(nodeIds);
    const report = { lost, takenBackBy, claimed: false };
    if (!acceptLoss && !isShared) return { ...report, removed: false };

    const removedBy = this.#deps.nodeId;
    await adopt(targets.map((target) => ({ ...target, state: 'left', version: target.version + 1, removedBy })));
    log.warn(
      { members: targets.map(({ name }) => name), nodeIds, lost: lost.map(({ id }) => id), takenBackBy },
      isShared ? 'removed members' : 'removed members: the partitions that only they held are lost',
    );
    // Members that do not answer now are told before any partition is claimed (O1).
    await Promise.all(toHear().map((other) => exchange(other)));
    return { ...report, removed: true };
  }

  /** Waits until remaining members hold all lost partitions, at most `waitMs`. False if they do not hold all by then. */
  async #areServedAgain(lost: readonly LostPartition[], removed: readonly string[], waitMs: number): Promise<boolean> {
    const { clock, view, members, onChange, stopping } = this.#deps;
    const isHeld = ({ id }: LostPartition): boolean => {
      const { nodeId = '' } = view.get(id as PartitionId) ?? {};
      return !removed.includes(nodeId) && (members().get(nodeId)?.state ?? 'left') !== 'left';
    };
    const { promise: over, resolve: end } = Promise.withResolvers<void>();
    const look = (): void => {
      if (stopping.aborted || lost.every(isHeld)) end();
    };
    const unwatch = onChange(look);
    const cancelTimer = clock.at((clock.now() + waitMs) as Instant, end);
    stopping.addEventListener('abort', look, { once: true });
    look();
    await over;
    unwatch();
    cancelTimer();
    stopping.removeEventListener('abort', look);
    return lost.every(isHeld);
  }

  /** The record of the member; throws if it may not be removed. */
  #target(nodeId: string): MemberRecord {
    const { members, membership } = this.#deps;
    const record = members().get(nodeId);
    if (!record) throw new Refusal('UNKNOWN_MEMBER', `no member has the id ${nodeId}`);
    if (record.state === 'left') throw new Refusal('MEMBER_LEFT', `member ${record.name} has left already`);
    const isAlive = membership.peers().some((peer) => peer.nodeId === nodeId && peer.alive);
    if (nodeId === this.#deps.nodeId || isAlive) throw this.#alive(record);
    return record;
  }

  #alive({ name }: MemberRecord): Refusal {
    return new Refusal('MEMBER_ALIVE', `member ${name} is alive: stop it, or drain it so that nothing is lost`, {
      metadata: { member: name },
    });
  }

  #others(nodeIds: readonly string[]): string[] {
    return this.#deps.toHear().filter((other) => !nodeIds.includes(other));
  }

  /** The inventories of these members; undefined for one that did not answer. */
  async #hear(others: readonly string[]): Promise<Answers> {
    const answers = others.map(async (other): Promise<[string, readonly InventoryEntry[] | undefined]> => {
      const [answered, held] = await Promise.all([this.#deps.exchange(other), this.#inventoryOf(other)]);
      return [other, answered ? held : undefined];
    });
    return new Map(await Promise.all(answers));
  }

  async #inventoryOf(other: string): Promise<readonly InventoryEntry[] | undefined> {
    const { call, clusterId, addressOf, log } = this.#deps;
    const address = addressOf(other);
    if (address === undefined) return undefined;
    try {
      const { held, nodeId } = await call(address, 'inventory', { clusterId }, { timeoutMs: EXCHANGE_TIMEOUT_MS });
      return nodeId === other ? held : undefined;
    } catch (error) {
      log.debug({ err: error, peer: other }, 'a member did not say what it holds');
      return undefined;
    }
  }

  /** Names of nodes that asked one of the members to take a partition and never got an answer: they serve it again. */
  #nodesThatTakeBack(nodeIds: readonly string[], answers: Answers): string[] {
    const { ownInventory, members, view } = this.#deps;
    const isTakenBack = ({ id, state, to }: InventoryEntry): boolean =>
      state === PartitionState.PARTITION_STATE_UNRESOLVED &&
      nodeIds.includes(to) &&
      !nodeIds.includes(view.get(id as PartitionId)?.nodeId ?? '');
    return [...answers, [this.#deps.nodeId, ownInventory()] as const]
      .filter(([, held]) => held?.some(isTakenBack))
      .map(([id]) => members().get(id)?.name ?? id)
      .sort();
  }

  /**
   * The partitions of the members. Call it when all other members have answered: a partition that none of them knows counts
   * too (O5).
   */
  #heldBy(nodeIds: readonly string[]): LostPartition[] {
    const { view, members } = this.#deps;
    const nameOf = (nodeId: string | undefined): string => members().get(nodeId ?? '')?.name ?? '';
    const ofOne = nodeIds.length === 1 ? nameOf(nodeIds[0]) : '';
    const lost: LostPartition[] = [];
    for (const id of view.unknown()) lost.push({ id, counted: false, queues: 0, tasks: 0, member: ofOne });
    for (const [id, { nodeId }] of view.entries()) {
      const isNamed = nodeIds.includes(nodeId);
      // A member that left handed its partitions over: if no remaining member has this one, a removed member does.
      if (!isNamed && members().get(nodeId)?.state !== 'left') continue;
      const { queues = 0, tasks = 0 } = view.counts(id) ?? {};
      const counted = view.counts(id) !== undefined;
      lost.push({ id, counted, queues, tasks, member: isNamed ? nameOf(nodeId) : ofOne });
    }
    return lost.sort((a, b) => a.id - b.id);
  }

  #unreachable(nodeIds: readonly string[], cause?: unknown): Refusal {
    const names = nodeIds.map((id) => this.#deps.members().get(id)?.name ?? id).join(', ');
    const message = `members that do not answer: ${names}; all members that stay must answer: start them, or name them too if they are lost for good`;
    return new Refusal(reasonOfSilence(cause), message, { metadata: { members: names }, cause });
  }
}
