import {
  type BackupPoint,
  MemberRole,
  type Method,
  methods,
  type LostPartition as WireLost,
  type Member as WireMember,
  MemberState as WireMemberState,
  type Partition as WirePartition,
  PartitionState as WirePartitionState,
} from '@taskmaster/proto';
import { type BackupPart, backupParts } from '../calls/backup-parts.ts';
import type { ClientContext } from '../tasks/context.ts';
import { type Duration, durationMs } from '../values/duration.ts';
import { makeError } from '../values/errors.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import type { CallOptions } from '../values/options.ts';
import { callNames } from '../values/options.ts';
import type { Repetition } from '../values/retry.ts';

/**
 * State of a node. `joining`: holds no partitions yet. `active`: holds its share. `leaving`: hands its partitions over. `left`:
 * is no member any more. `unknown`: a state that this version does not know.
 */
export type MemberState = 'joining' | 'active' | 'leaving' | 'left' | 'unknown';

/** Fields of all members. Addresses are `host:port`, and undefined if they are unknown. */
interface Present {
  /** Unique among members that have not left. */
  readonly name: string;
  /** Stable id. A node keeps it on its disk. */
  readonly nodeId: string;
  /** Whether it answers the other members. A dead node still holds its partitions. */
  readonly alive: boolean;
  /** It did not answer just now. It is declared dead unless it answers soon. */
  readonly suspect: boolean;
  /** Version of the program. Undefined: the node that answered has not heard of the member since its start. */
  readonly version: string | undefined;
  /** Address of gRPC. */
  readonly rpcAddress: string | undefined;
  readonly gossipAddress: string | undefined;
  /** Address of health, metrics and pages. */
  readonly httpAddress: string | undefined;
}

/** A member that holds partitions. */
export interface ClusterNode extends Present {
  readonly role: 'node';
  readonly state: MemberState;
  readonly partitionsHeld: number;
  /** Number of partitions that it should hold. While it differs from `partitionsHeld`, partitions move. */
  readonly partitionsWanted: number;
  /** Name of the node that removed it. Undefined: it was not removed. */
  readonly removedBy: string | undefined;
}

/** A running proxy. It holds no partitions. */
export interface ClusterProxy extends Present {
  readonly role: 'proxy';
}

export type ClusterMember = ClusterNode | ClusterProxy;

export interface ClusterMembers {
  readonly clusterId: string;
  /** Number of partitions of the cluster. It never changes. */
  readonly partitions: number;
  /** Nodes by name (nodes that have left come last), then proxies by name. */
  readonly members: readonly ClusterMember[];
}

/**
 * State of a partition. `serving`: its holder serves it. `moving`: its holder serves it and sends it to another node. `frozen`:
 * calls wait for a moment, until the new holder serves it. `unresolved`: the new holder has not confirmed yet that it has it.
 * `unreachable`: its holder does not answer. `unknown`: a state that this version does not know.
 */
export type PartitionState = 'serving' | 'moving' | 'frozen' | 'unresolved' | 'unreachable' | 'unknown';

/** A partition. Each group of queues belongs to one. */
export interface ClusterPartition {
  /** From 0. */
  readonly id: number;
  /** The node that holds it. Undefined: unknown. */
  readonly holder: { readonly name: string; readonly nodeId: string } | undefined;
  /** Number of changes of its holder. */
  readonly epoch: number;
  readonly state: PartitionState;
  /** Queues and tasks in it. If the holder does not answer: by its last report. */
  readonly queues: number;
  readonly tasks: number;
  /** Name of the node that should hold it. Undefined: unknown. */
  readonly wanted: string | undefined;
  /** Name of the node that receives it, and how much was sent. Undefined: it does not move. */
  readonly movingTo: { readonly name: string; readonly rows: number; readonly bytes: number } | undefined;
}

export interface ClusterPartitions {
  /** By id. */
  readonly partitions: readonly ClusterPartition[];
  /** Names of nodes that did not answer within two seconds. */
  readonly unreachable: readonly string[];
}

export interface DrainOutcome {
  /** Number of partitions that it still holds. */
  readonly partitionsHeld: number;
}

export interface RemoveOptions extends CallOptions {
  /** Accepts that the tasks that only these members held are lost. Default false: reports the loss and changes nothing. */
  readonly acceptLoss?: boolean | undefined;
  /**
   * Longest wait until other members serve the lost partitions, at most a minute. It takes about 7 s if all remaining members
   * answer. It is added to the timeout. Default 10 s. 0: do not wait.
   */
  readonly wait?: Duration | undefined;
}

export interface RemoveOutcome {
  /** Whether the members were removed. */
  readonly removed: boolean;
  /** Partitions that begin anew, empty. Without `acceptLoss`: that would begin anew. */
  readonly lost: readonly LostPartition[];
  /** Names of nodes that keep partitions that they were moving to these members. These partitions are not lost. */
  readonly takenBackBy: readonly string[];
  /** Whether other members serve the lost partitions. False: they will, when all remaining members have answered. */
  readonly claimed: boolean;
}

export interface BackupOptions extends CallOptions {
  /** Longest wait for the first part, with repetitions. Default: the client's `timeout`. The other parts have no timeout. */
  readonly timeout?: Duration | undefined;
  /**
   * The state that an earlier backup ends with. If nothing has changed since, rows and log entries are left out, and
   * `unchanged` is set in the header.
   */
  readonly unchangedSince?: BackupPoint | undefined;
  /** Limit of the bytes that the node sends in a second. The limit of the node applies, too. Default: no other limit. */
  readonly maxBytesPerSecond?: number | undefined;
}

/** A partition that only removed members held. */
export interface LostPartition {
  readonly id: number;
  /** Name of the member that held it. Undefined: several may have held it. */
  readonly member: string | undefined;
  /** Its content by the last report. Undefined: unknown. */
  readonly counted: { readonly queues: number; readonly tasks: number } | undefined;
}

const removeNames: OptionNames<RemoveOptions> = { ...callNames, acceptLoss: true, wait: true };
const backupNames: OptionNames<BackupOptions> = { ...callNames, unchangedSince: true, maxBytesPerSecond: true };

/** Members wait six seconds before they begin lost partitions anew, and ask each other before and after. */
const REMOVE_WAIT_MS = 10_000;

/**
 * Members and partitions of the cluster, for operators. Any node and any proxy answers for the whole cluster. Use
 * `client.cluster`.
 *
 * Every call but `backupPartition` rejects with `NoClusterError` if the node has no cluster or the engine is in this process.
 */
export class Cluster {
  readonly #context: ClientContext;

  /** Internal: use `client.cluster`. */
  constructor(context: ClientContext) {
    this.#context = context;
  }

  /** The members of the cluster and the running proxies. @throws NoClusterError, UnavailableError, ... */
  async members(options: CallOptions = {}): Promise<ClusterMembers> {
    assertKnown('members', options, callNames);
    const reply = await this.#ask(methods.listMembers, {}, options);
    return { ...reply, members: reply.members.map(memberFrom) };
  }

  /** The holders of all partitions. Takes two seconds if a node does not answer. @throws NoClusterError, UnavailableError, ... */
  async partitions(options: CallOptions = {}): Promise<ClusterPartitions> {
    assertKnown('partitions', options, callNames);
    const reply = await this.#ask(methods.listPartitions, {}, options);
    return { ...reply, partitions: reply.partitions.map(partitionFrom) };
  }

  /**
   * Moves the partitions of a member to the other members; then the member leaves. Resolves when the drain has begun. `members`
   * shows the progress until the state is `left`. It is safe to repeat.
   * @throws UnknownMemberError, MemberLeftError, LastMemberError, NoClusterError; UnavailableError with the reason
   * HOLDER_UNREACHABLE if the member does not answer.
   */
  async drain(name: string, options: CallOptions = {}): Promise<DrainOutcome> {
    assertKnown('drain', options, callNames);
    return this.#ask(methods.drainMember, { name }, options, 'operator');
  }

  /**
   * Ends a drain: the member stays, and takes its share of the partitions again. Has no effect on a member that is not being
   * drained. Resolves when that is durable. It is safe to repeat.
   * @throws MemberLeftError once the member has handed everything over; UnknownMemberError, NoClusterError; UnavailableError with
   * the reason HOLDER_UNREACHABLE if the member does not answer, or SHUTTING_DOWN if its process was told to stop.
   */
  async resume(name: string, options: CallOptions = {}): Promise<DrainOutcome> {
    assertKnown('resume', options, callNames);
    return this.#ask(methods.resumeMember, { name }, options, 'operator');
  }

  /**
   * Removes members that will not come back, all of them or none. The tasks that only they held are lost. Without `acceptLoss`
   * the call reports this loss and changes nothing. The members must be stopped: one that still runs, cut off from the others,
   * goes on serving until it learns of its removal, and changes that it acknowledges then are lost.
   * @throws MemberAliveError, UnknownMemberError, MemberLeftError, LastMemberError, NoClusterError; UnavailableError with the
   * reason HOLDER_UNREACHABLE if another active member does not answer; TypeError without a name.
   */
  async remove(names: string | readonly string[], options: RemoveOptions = {}): Promise<RemoveOutcome> {
    assertKnown('remove', options, removeNames);
    const [name, ...also] = typeof names === 'string' ? [names] : names;
    if (name === undefined) throw new TypeError('names: at least one is needed');
    const acceptLoss = options.acceptLoss ?? false;
    const waitMs = acceptLoss ? durationMs(options.wait ?? REMOVE_WAIT_MS, 'wait') : 0;
    const request = { name, also, acceptLoss, waitMs };
    const reply = await this.#ask(methods.removeMember, request, options, 'operator');
    return { ...reply, lost: reply.lost.map(lostFrom) };
  }

  /**
   * Copies a partition while it serves: a header, rows and atoms, and an end, as in backup.proto. The copy has every change that
   * was acknowledged before the first part was asked for, and each update completely or not at all. Parts are read as they are
   * asked for. To give the backup up, leave the loop or abort the signal.
   *
   * The call is repeated until the first part has come. A later error ends the copy: begin the partition again.
   * @throws UnavailableError with BACKUP_BROKEN; OverloadedError with TOO_MANY_BACKUPS or BACKUP_TOO_SLOW; CancelledError;
   * TypeError if a number is not a whole number.
   */
  backupPartition(partition: number, options: BackupOptions = {}): AsyncIterableIterator<BackupPart, undefined> {
    assertKnown('backupPartition', options, backupNames);
    const { unchangedSince, maxBytesPerSecond = 0, ...call } = options;
    for (const [name, value] of Object.entries({ partition, maxBytesPerSecond })) {
      if (!Number.isSafeInteger(value) || value < 0)
        throw new TypeError(`${name}: ${value} is not a whole number from 0`);
    }
    const { calls, timing } = this.#context;
    return backupParts(calls, timing, { partition, unchangedSince, maxBytesPerSecond }, call);
  }

  /**
   * Tells the cluster that a backup has failed, so that its metrics, alerts and console show it until the next backup. `problem`:
   * why, at most 500 characters; empty takes it back, for a backup that was continued and is whole now. `taskmaster backup
   * create` does this itself. It is safe to repeat.
   * @throws UnavailableError with HOLDER_UNREACHABLE if the holder of the first partition does not answer.
   */
  async reportFailedBackup(problem: string, options: CallOptions = {}): Promise<void> {
    assertKnown('reportFailedBackup', options, callNames);
    const { calls, timing } = this.#context;
    const request = { partition: 0, unchangedSince: undefined, maxBytesPerSecond: 0, failure: problem };
    const parts = backupParts(calls, timing, request, options);
    // A node of an earlier release begins to send the partition.
    await parts.next();
    await parts.return(undefined);
  }

  async #ask<Q extends object, R>(
    method: Method<Q, R>,
    request: NoInfer<Q>,
    options: CallOptions,
    repetition?: Repetition,
  ): Promise<R> {
    const { calls } = this.#context;
    if (calls.transport.isInProcess) {
      throw makeError('the engine is in this process and belongs to no cluster', { reason: 'NO_CLUSTER' });
    }
    return calls.call(method, request, options, repetition);
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

/** In the protocol an empty string means unknown, or not applicable. */
function known(text: string): string | undefined {
  return text === '' ? undefined : text;
}
