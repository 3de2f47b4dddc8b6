import {
  MemberRole,
  type LostPartition as WireLost,
  type Member as WireMember,
  MemberState as WireMemberState,
  type Partition as WirePartition,
  PartitionState as WirePartitionState,
} from '@taskmaster/proto';
import type { ClientContext } from '../tasks/context.ts';
import type { ClusterCalls, TransportCallOptions } from '../transport/transport.ts';
import { type Duration, durationMs } from '../values/duration.ts';
import { makeError } from '../values/errors.ts';
import type { CallOptions } from '../values/options.ts';
import type { Repetition } from '../values/retry.ts';

/**
 * Where a node stands: `joining` (known, holds nothing yet), `active` (holds its part), `leaving` (hands over what it has),
 * `left` (gone for good). `unknown`: something that this version has no word for.
 */
export type MemberState = 'joining' | 'active' | 'leaving' | 'left' | 'unknown';

/** What all that belong to a cluster have. Addresses are `host:port`. */
interface Present {
  /** Unique among members that have not left. */
  readonly name: string;
  /** Stable; a node keeps it on its disk. */
  readonly nodeId: string;
  /** Whether it answers the other members, as they tell each other. A dead node still holds its partitions. */
  readonly alive: boolean;
  /** It did not answer just now, and is declared dead unless it does soon. */
  readonly suspect: boolean;
  /** Of the program; undefined when it was not heard of since the answering node started. */
  readonly version: string | undefined;
  /** Of its gRPC; undefined where that is not known, as are the others. */
  readonly rpcAddress: string | undefined;
  readonly gossipAddress: string | undefined;
  /** Of its health, metrics and pages. */
  readonly httpAddress: string | undefined;
}

/** A member that holds partitions. */
export interface ClusterNode extends Present {
  readonly role: 'node';
  readonly state: MemberState;
  readonly partitionsHeld: number;
  /** How many it should hold; partitions are on the move while that differs. */
  readonly partitionsWanted: number;
  /** Name of the node through which it was given up; undefined unless it was. */
  readonly removedBy: string | undefined;
}

/** A member that only routes; it is there as long as it runs. */
export interface ClusterProxy extends Present {
  readonly role: 'proxy';
}

export type ClusterMember = ClusterNode | ClusterProxy;

export interface ClusterMembers {
  readonly clusterId: string;
  /** How many partitions the cluster has, for ever. */
  readonly partitions: number;
  /** Nodes by name, those that left last, then proxies by name. */
  readonly members: readonly ClusterMember[];
}

/**
 * Where a partition stands: `serving`, `moving` (served while it is sent to another node), `frozen` (callers wait for the
 * moment of its hand-over), `unresolved` (another node was told to take it, and has not said whether it did),
 * `unreachable` (its holder does not answer). `unknown`: something that this version has no word for.
 */
export type PartitionState = 'serving' | 'moving' | 'frozen' | 'unresolved' | 'unreachable' | 'unknown';

/** One of the parts into which the groups of all queues are divided. */
export interface ClusterPartition {
  /** From 0. */
  readonly id: number;
  /** The node that holds it; undefined when that is not known. */
  readonly holder: { readonly name: string; readonly nodeId: string } | undefined;
  /** Counts the changes of its holder. */
  readonly epoch: number;
  readonly state: PartitionState;
  /** Queues and tasks in it; of a holder that does not answer: what it last said. */
  readonly queues: number;
  readonly tasks: number;
  /** Name of the node that should hold it; undefined when that is not known. */
  readonly wanted: string | undefined;
  /** Where it is being sent, and how much of it has been; undefined unless it is. */
  readonly movingTo: { readonly name: string; readonly rows: number; readonly bytes: number } | undefined;
}

export interface ClusterPartitions {
  /** By id. */
  readonly partitions: readonly ClusterPartition[];
  /** Names of nodes that did not answer within two seconds. */
  readonly unreachable: readonly string[];
}

export interface DrainOutcome {
  /** Partitions it still holds. */
  readonly partitionsHeld: number;
}

export interface RemoveOptions extends CallOptions {
  /** What only those members held is lost. Default false: the answer says what that would be, and nothing changes. */
  readonly acceptLoss?: boolean | undefined;
  /**
   * Longest wait until what is lost is served again, empty, at most a minute: it takes about 7 s when all members that are
   * left answer. It comes on top of the timeout. Default 10 s; 0: do not wait.
   */
  readonly wait?: Duration | undefined;
}

export interface RemoveOutcome {
  /** Whether the members were given up. */
  readonly removed: boolean;
  /** Partitions that begin anew, empty; or would, when nothing was done. */
  readonly lost: readonly LostPartition[];
  /** Names of nodes whose hand-over of a partition to such a member is taken back, with nothing lost. */
  readonly takenBackBy: readonly string[];
  /** Whether all that is lost is served again. False: that comes, once all members that are left have answered. */
  readonly claimed: boolean;
}

/** A partition that only removed members held. */
export interface LostPartition {
  readonly id: number;
  /** Name of the one that held it; undefined: nobody knows which of several did. */
  readonly member: string | undefined;
  /** What was in it when it was last heard of; undefined: nobody knows. */
  readonly counted: { readonly queues: number; readonly tasks: number } | undefined;
}

/** Members wait six seconds before they begin anew what others held, and ask each other before and after. */
const REMOVE_WAIT_MS = 10_000;

/**
 * The cluster that the client's nodes belong to: its members, who holds what, and what operators do to them. Any node and
 * any proxy answers for all. `client.cluster` is one.
 *
 * Every call rejects with `NoClusterError` where a node stands alone or the engine is in this process.
 */
export class Cluster {
  readonly #context: ClientContext;

  /** Not for callers: `client.cluster` is one. */
  constructor(context: ClientContext) {
    this.#context = context;
  }

  /** Who belongs to the cluster, and the proxies that are there now. @throws NoClusterError, Unavailable, ... */
  async members(options: CallOptions = {}): Promise<ClusterMembers> {
    const reply = await this.#ask('listMembers', 'read', options, (calls, attempt) => calls.listMembers({}, attempt));
    return { ...reply, members: reply.members.map(memberFrom) };
  }

  /** Who holds what. Takes two seconds when a node does not answer. @throws NoClusterError, Unavailable, ... */
  async partitions(options: CallOptions = {}): Promise<ClusterPartitions> {
    const reply = await this.#ask('listPartitions', 'read', options, (calls, attempt) =>
      calls.listPartitions({}, attempt),
    );
    return { ...reply, partitions: reply.partitions.map(partitionFrom) };
  }

  /**
   * Has a member hand everything over to the others and leave. Resolves once that has begun; `members` shows how far it is,
   * until its state is `left`. Harmless when repeated.
   * @throws UnknownMemberError, MemberLeftError, LastMemberError, NoClusterError; Unavailable with the reason HOLDER_UNREACHABLE when the member
   * does not answer.
   */
  drain(name: string, options: CallOptions = {}): Promise<DrainOutcome> {
    return this.#ask('drainMember', 'operator', options, (calls, attempt) => calls.drainMember({ name }, attempt));
  }

  /**
   * Gives up a member that will not come back, or several at once: all of them, or none. What only they held is lost:
   * without `acceptLoss` nothing changes, and the answer says what that is. So is what they acknowledge from then on: they
   * must not run any more, as one that is cut off from the others serves on until it hears of it.
   * @throws MemberAliveError, UnknownMemberError, MemberLeftError, LastMemberError, NoClusterError; Unavailable with the reason HOLDER_UNREACHABLE when
   * an active member that is not named does not answer; TypeError when none is named.
   */
  async remove(names: string | readonly string[], options: RemoveOptions = {}): Promise<RemoveOutcome> {
    const [name, ...also] = typeof names === 'string' ? [names] : names;
    if (name === undefined) throw new TypeError('names: no member is named');
    const acceptLoss = options.acceptLoss ?? false;
    const waitMs = acceptLoss ? durationMs(options.wait ?? REMOVE_WAIT_MS, 'wait') : 0;
    const request = { name, also, acceptLoss, waitMs };
    const reply = await this.#ask('removeMember', 'operator', options, (calls, attempt) =>
      calls.removeMember(request, attempt),
    );
    return { ...reply, lost: reply.lost.map(lostFrom) };
  }

  async #ask<Reply>(
    operation: keyof ClusterCalls,
    repetition: Repetition,
    options: CallOptions,
    attemptOnce: (calls: ClusterCalls, options: TransportCallOptions) => Promise<Reply>,
  ): Promise<Reply> {
    const { caller } = this.#context;
    const calls = caller.transport.cluster;
    if (calls === undefined) {
      throw makeError('the engine is in this process and belongs to no cluster', { reason: 'NO_CLUSTER' });
    }
    return caller.call(operation, repetition, options, (attempt) => attemptOnce(calls, attempt));
  }
}

const memberStates: Readonly<Record<number, MemberState>> = {
  [WireMemberState.MEMBER_STATE_JOINING]: 'joining',
  [WireMemberState.MEMBER_STATE_ACTIVE]: 'active',
  [WireMemberState.MEMBER_STATE_LEAVING]: 'leaving',
  [WireMemberState.MEMBER_STATE_LEFT]: 'left',
};

const partitionStates: Readonly<Record<number, PartitionState>> = {
  [WirePartitionState.PARTITION_STATE_SERVING]: 'serving',
  [WirePartitionState.PARTITION_STATE_MOVING]: 'moving',
  [WirePartitionState.PARTITION_STATE_FROZEN]: 'frozen',
  [WirePartitionState.PARTITION_STATE_UNRESOLVED]: 'unresolved',
  [WirePartitionState.PARTITION_STATE_UNREACHABLE]: 'unreachable',
};

function memberFrom(member: WireMember): ClusterMember {
  const present: Present = {
    name: member.name,
    nodeId: member.nodeId,
    alive: member.alive,
    suspect: member.suspect,
    version: known(member.version),
    rpcAddress: known(member.rpcAddress),
    gossipAddress: known(member.gossipAddress),
    httpAddress: known(member.httpAddress),
  };
  if (member.role === MemberRole.MEMBER_ROLE_PROXY) return { role: 'proxy', ...present };
  return {
    role: 'node',
    ...present,
    state: memberStates[member.state] ?? 'unknown',
    partitionsHeld: member.partitionsHeld,
    partitionsWanted: member.partitionsWanted,
    removedBy: known(member.removedBy),
  };
}

function partitionFrom(partition: WirePartition): ClusterPartition {
  const { id, epoch, queues, tasks, holder, holderNodeId, movingTo } = partition;
  return {
    id,
    holder: holderNodeId === '' ? undefined : { name: holder, nodeId: holderNodeId },
    epoch,
    state: partitionStates[partition.state] ?? 'unknown',
    queues,
    tasks,
    wanted: known(partition.wanted),
    movingTo: movingTo === '' ? undefined : { name: movingTo, rows: partition.movedRows, bytes: partition.movedBytes },
  };
}

function lostFrom({ id, member, counted, queues, tasks }: WireLost): LostPartition {
  return { id, member: known(member), counted: counted ? { queues, tasks } : undefined };
}

/** The protocol says with an empty string that something is not known, or does not apply. */
function known(text: string): string | undefined {
  return text === '' ? undefined : text;
}
