import { Refusal } from '@taskmaster/engine/domain';
import { type Clock, sleep } from '@taskmaster/engine/ports';
import { isTransient, type JoinRequest, type JoinResponse, type MemberRelease } from '@taskmaster/proto';
import {
  assertCompatible,
  type Exchanger,
  fromWireRecord,
  type Heard,
  isRemoved,
  type MemberRecord,
  membersNamed,
  toWireRecord,
} from '@taskmaster/server/cluster-view';
import type { CallPeer } from '@taskmaster/server/ports';
import type { Knowledge } from '../knowledge/knowledge.ts';

export interface JoiningDeps {
  readonly clusterId: string;
  readonly nodeId: string;
  readonly partitionCount: number;
  /** The release of this node. */
  readonly release: MemberRelease;
  readonly knowledge: Knowledge;
  readonly exchanger: Exchanger;
  readonly call: CallPeer<'join'>;
  readonly clock: Clock;
  readonly stopping: AbortSignal;
}

const JOIN_TIMEOUT_MS = 5_000;
const ACTIVATE_RETRY_MS = 500;

/** Lets this node become a member, and admits other nodes. */
export class Joining {
  readonly #deps: JoiningDeps;

  constructor(deps: JoiningDeps) {
    this.#deps = deps;
  }

  /** Admits a node, or throws a Refusal that says why not. */
  takeIn({ clusterId, member, release }: JoinRequest): Promise<JoinResponse> {
    const { knowledge, clusterId: own, partitionCount: partitions } = this.#deps;
    return knowledge.inTurn(async () => {
      const record = member && fromWireRecord(member);
      if (!record || record.nodeId === '') throw new Refusal('MALFORMED_REQUEST', 'a join without a member');
      const { nodeId, name } = record;
      assertCompatible(this.#deps.release, release);
      if (clusterId !== '' && clusterId !== own) {
        throw new Refusal('WRONG_CLUSTER', `this is cluster ${own}, and ${name} belongs to cluster ${clusterId}`);
      }
      const namesake = membersNamed(knowledge.members, name).find((other) => other.nodeId !== nodeId);
      if (namesake) {
        throw new Refusal('NAME_IN_USE', `another member, at ${namesake.rpcAddress}, has the name ${name}`);
      }
      if (knowledge.members.get(nodeId)?.state === 'left') {
        throw new Refusal('MEMBER_LEFT', `member ${name} has left: start it with an empty data directory`);
      }
      if (knowledge.self?.state === 'left') {
        // This node's knowledge of the cluster is old, or will be soon.
        throw new Refusal('SHUTTING_DOWN', 'this node has left the cluster: ask another node');
      }
      if (knowledge.self?.state === 'joining') {
        // The new member might know only this node, and think that it is alone when it restarts.
        throw new Refusal('STARTING', 'this node is joining itself: ask another node, or ask again later');
      }
      await knowledge.adopt([record]);
      return { clusterId: own, partitions, knowledge: knowledge.tell() };
    });
  }

  /** Asks the addresses in order to admit this node; resolves with the first answer. */
  async ask(addresses: readonly string[]): Promise<JoinResponse> {
    const { knowledge, call, clusterId, release } = this.#deps;
    const { self } = knowledge;
    if (!self) throw new Error('a node needs its own member record to join');
    let last: unknown = new Refusal('HOLDER_UNREACHABLE', 'no member to ask');
    for (const address of addresses) {
      const request = { clusterId, member: toWireRecord(self), release };
      try {
        const answer = await call(address, 'join', request, { timeoutMs: JOIN_TIMEOUT_MS });
        if (answer.clusterId !== clusterId)
          throw new Refusal('WRONG_CLUSTER', `${address} answers for another cluster`);
        await knowledge.inTurn(() => knowledge.learn(answer.knowledge, ''));
        return answer;
      } catch (error) {
        // A permanent refusal by one member stands for all members.
        if (error instanceof Refusal && !isTransient(error.reason)) throw error;
        last = error;
      }
    }
    throw last;
  }

  /** See `ClusterAgent.activate`. */
  async activate(): Promise<void> {
    const { knowledge, clock, stopping } = this.#deps;
    while (knowledge.self?.state === 'joining') {
      const others = knowledge.others;
      // Leaving members come last. They are needed if all active members are lost. Only an active member can remove lost
      // members, so this node must become active.
      const inOrder = [...others.filter(isActive), ...others.filter((record) => !isActive(record))];
      if (others.length === 0 || (await this.#tellAs('active', inOrder)) !== undefined || (await this.#tellLeaving())) {
        return knowledge.changeSelf({ state: 'active' });
      }
      await sleep(clock, ACTIVATE_RETRY_MS, stopping);
    }
  }

  /**
   * Tells the active members in order that this node has left, until one has stored it. A leaving member may be gone before it
   * passes the news on, so it does not count. False if no active member answered.
   */
  async tellLeft(): Promise<boolean> {
    const { knowledge } = this.#deps;
    const told = await this.#tellAs('left', knowledge.others.filter(isActive));
    // Its answer says which state it had after it stored the news.
    const record = told === undefined ? undefined : knowledge.members.get(told);
    return record !== undefined && isActive(record);
  }

  /**
   * Tells members that are still leaving that this node is active. This node knows them as members that have left: a leaving
   * member announces that early, and waits until an active member has stored it. If all active members are lost, it waits for
   * this node. False if there is no leaving member.
   */
  async #tellLeaving(): Promise<boolean> {
    const { members } = this.#deps.knowledge;
    const left = [...members.values()].filter((record) => record.state === 'left' && !isRemoved(record));
    return (await this.#tellAs('active', left, ({ state }) => state === 'leaving')) !== undefined;
  }

  /**
   * Tells the members in order that this node is in the state, until one whose answer counts has stored it. Resolves with the
   * id of that member.
   */
  async #tellAs(
    state: 'active' | 'left',
    others: readonly MemberRecord[],
    counts: (answer: Heard) => boolean = () => true,
  ): Promise<string | undefined> {
    const { knowledge, exchanger } = this.#deps;
    const { self } = knowledge;
    if (!self) return undefined;
    const changed = toWireRecord(self.state === state ? self : { ...self, state, version: self.version + 1 });
    for (const { nodeId } of others) {
      const known = knowledge.tell();
      const members = [...known.members.filter((record) => record.nodeId !== self.nodeId), changed];
      const answer = await exchanger.hear(nodeId, { ...known, members });
      if (answer && counts(answer)) return nodeId;
    }
    return undefined;
  }
}

const isActive = ({ state }: MemberRecord): boolean => state === 'active';
