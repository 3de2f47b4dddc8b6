import { type InventoryEntry, type LostPartition, PartitionState, type RemoveMemberResponse } from '@taskmaster/proto';
import { Refusal } from '../domain/errors.ts';
import type { PartitionId } from '../domain/ids.ts';
import type { Log } from '../ports/log.ts';
import type { Membership } from '../ports/membership.ts';
import type { CallPeer } from '../ports/peer-network.ts';
import { EXCHANGE_TIMEOUT_MS } from './exchange.ts';
import type { HolderView } from './holder-view.ts';
import { deciderWithout, type MemberRecord, type Members } from './members.ts';

export interface RemovalDeps {
  readonly clusterId: string;
  readonly nodeId: string;
  readonly membership: Membership;
  readonly call: CallPeer<'inventory' | 'giveUp'>;
  readonly log: Log;
  readonly view: HolderView;
  readonly members: () => Members;
  readonly addressOf: (nodeId: string) => string | undefined;
  /** Hears what the member knows; whether it answered. */
  readonly exchange: (nodeId: string) => Promise<boolean>;
  /** Members whose answers are needed, this node left out. */
  readonly toHear: () => readonly string[];
  /** What this node holds. */
  readonly ownInventory: () => readonly InventoryEntry[];
  /** Durable here when it resolves. */
  readonly adopt: (record: MemberRecord) => Promise<void>;
}

const FORWARD_TIMEOUT_MS = 8_000;

/**
 * Gives up members that will not return. One node decides for all, so that two operators at two nodes do not decide
 * against each other; what the removed member held is claimed afterwards, see `Orphans`.
 */
export class Removal {
  readonly #deps: RemovalDeps;

  constructor(deps: RemovalDeps) {
    this.#deps = deps;
  }

  /** Through whichever node has to decide. */
  async remove(nodeId: string, acceptLoss: boolean): Promise<RemoveMemberResponse> {
    const { call, clusterId, addressOf, members } = this.#deps;
    this.#target(nodeId);
    const decider = deciderWithout(members(), nodeId);
    if (decider === undefined) throw new Refusal('LAST_MEMBER', 'no other active member could take its partitions');
    if (decider === this.#deps.nodeId) return this.giveUp(nodeId, acceptLoss);
    const address = addressOf(decider);
    try {
      if (address === undefined) throw new Error('its address is not known');
      const request = { clusterId, nodeId, acceptLoss };
      return await call(address, 'giveUp', request, { timeoutMs: FORWARD_TIMEOUT_MS });
    } catch (error) {
      if (error instanceof Refusal) throw error;
      throw this.#unreachable([decider], error);
    }
  }

  /** At the node that decides. */
  async giveUp(nodeId: string, acceptLoss: boolean): Promise<RemoveMemberResponse> {
    const { log, members, adopt, toHear, exchange } = this.#deps;
    this.#target(nodeId);
    // The member itself is asked too: gossip is advice.
    const [answers, targetAnswers] = await Promise.all([this.#hear(this.#others(nodeId)), exchange(nodeId)]);
    // All of it is judged by what is known now.
    const target = this.#target(nodeId);
    if (targetAnswers) throw this.#alive(target);
    if (deciderWithout(members(), nodeId) !== this.#deps.nodeId) {
      throw new Refusal('HOLDER_UNREACHABLE', 'the members do not agree yet on who decides: try again', {
        retryDelayMs: 1_000,
      });
    }
    const silent = this.#others(nodeId).filter((other) => answers.get(other) === undefined);
    if (silent.length > 0) throw this.#unreachable(silent);
    const takenBackBy = this.#nodesThatTakeBack(nodeId, answers);
    const lost = this.#heldBy(nodeId);
    if (!acceptLoss) return { removed: false, lost, takenBackBy };

    await adopt({ ...target, state: 'left', version: target.version + 1, removedBy: this.#deps.nodeId });
    log.warn(
      { member: target.name, nodeId, lost: lost.map(({ id }) => id), takenBackBy },
      'gave a member up: what only it held is lost',
    );
    // Whoever does not answer now is told before anything is claimed.
    await Promise.all(toHear().map((other) => exchange(other)));
    return { removed: true, lost, takenBackBy };
  }

  /** The member, if it may be given up. */
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

  #others(nodeId: string): string[] {
    return this.#deps.toHear().filter((other) => other !== nodeId);
  }

  /** What those who answer hold. */
  async #hear(others: readonly string[]): Promise<ReadonlyMap<string, readonly InventoryEntry[] | undefined>> {
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

  /** Who told the member to take a partition, and never heard that it did. */
  #nodesThatTakeBack(nodeId: string, answers: ReadonlyMap<string, readonly InventoryEntry[] | undefined>): string[] {
    const { ownInventory, members, view } = this.#deps;
    const isTakenBack = ({ id, state, to }: InventoryEntry): boolean =>
      state === PartitionState.PARTITION_STATE_UNRESOLVED &&
      to === nodeId &&
      view.get(id as PartitionId)?.nodeId !== nodeId;
    return [...answers, [this.#deps.nodeId, ownInventory()] as const]
      .filter(([, held]) => held?.some(isTakenBack))
      .map(([id]) => members().get(id)?.name ?? id)
      .sort();
  }

  /** Asked when all others have answered: what none of them knows anything of is with the member, too (O5). */
  #heldBy(nodeId: string): LostPartition[] {
    const { view, members } = this.#deps;
    const lost: LostPartition[] = view.unknown().map((id) => ({ id, counted: false, queues: 0, tasks: 0 }));
    for (const [id, holder] of view.entries()) {
      // What somebody handed on before leaving, to none of those who answered, is there as well.
      if (holder.nodeId !== nodeId && members().get(holder.nodeId)?.state !== 'left') continue;
      const counts = view.counts(id);
      lost.push({ id, counted: counts !== undefined, queues: counts?.queues ?? 0, tasks: counts?.tasks ?? 0 });
    }
    return lost.sort((a, b) => a.id - b.id);
  }

  #unreachable(nodeIds: readonly string[], cause?: unknown): Refusal {
    const names = nodeIds.map((id) => this.#deps.members().get(id)?.name ?? id).join(', ');
    const message = `members that do not answer: ${names}; all others must be heard when one is given up`;
    return new Refusal('HOLDER_UNREACHABLE', message, { metadata: { members: names }, cause });
  }
}
