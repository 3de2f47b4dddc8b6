import { makeError } from '@taskmaster/client/internal';
import {
  type DrainMemberResponse,
  type ListMembersResponse,
  type ListPartitionsResponse,
  type Member,
  MemberRole,
  MemberState,
  type Partition,
  PartitionState,
  type RemoveMemberRequest,
  type RemoveMemberResponse,
  type ResumeMemberResponse,
  type UnreachableNode,
} from '@taskmaster/proto';

/** Members and partitions that a fake node reports. Without members the node has no cluster. */
export class FakeCluster {
  members: Member[] = [];
  partitions: Partition[] = [];
  unreachable: string[] = [];
  /** Nodes whose queues and schedules are missing in listings. */
  silent: UnreachableNode[] = [];
  /** Partitions that a draining member hands over between two lists of members. */
  handedOverPerPoll = 1;
  /** Partitions that are lost by a removal. */
  lost: RemoveMemberResponse['lost'] = [];
  takenBackBy: string[] = [];
  /** A removal that waits for at least this time, in ms, is `claimed`. No time passes in the fake. */
  claimMs = 7_000;

  listMembers(): ListMembersResponse {
    this.#assertCluster();
    const reply = { clusterId: 'c-1', partitions: this.partitions.length, members: structuredClone(this.members) };
    for (const member of this.members) {
      if (member.state !== MemberState.MEMBER_STATE_LEAVING) continue;
      member.partitionsHeld = Math.max(0, member.partitionsHeld - this.handedOverPerPoll);
      if (member.partitionsHeld === 0) member.state = MemberState.MEMBER_STATE_LEFT;
    }
    return reply;
  }

  listPartitions(): ListPartitionsResponse {
    this.#assertCluster();
    return { partitions: this.partitions, unreachable: this.unreachable };
  }

  drainMember(name: string): DrainMemberResponse {
    const member = this.#member(name);
    const canTake = this.members.some(
      (other) => other !== member && other.alive && other.state === MemberState.MEMBER_STATE_ACTIVE,
    );
    if (!canTake) {
      throw makeError(`${name} is the last active member`, { reason: 'LAST_MEMBER' });
    }
    if (!member.alive) throw makeError(`${name} does not answer`, { reason: 'HOLDER_UNREACHABLE', retryDelayMs: 1 });
    member.state = MemberState.MEMBER_STATE_LEAVING;
    member.partitionsWanted = 0;
    return { partitionsHeld: member.partitionsHeld };
  }

  resumeMember(name: string): ResumeMemberResponse {
    const member = this.#member(name);
    member.state = MemberState.MEMBER_STATE_ACTIVE;
    return { partitionsHeld: member.partitionsHeld };
  }

  removeMember({ name, also, acceptLoss, waitMs }: RemoveMemberRequest): RemoveMemberResponse {
    const removed = [name, ...also].map((one) => this.#member(one));
    const alive = removed.find((member) => member.alive);
    if (alive) throw makeError(`${alive.name} answers`, { reason: 'MEMBER_ALIVE' });
    const silent = this.members.filter((member) => isActive(member) && !member.alive && !removed.includes(member));
    if (silent.length > 0) {
      const names = silent.map((member) => member.name).join(', ');
      throw makeError(`members that do not answer: ${names}`, { reason: 'HOLDER_UNREACHABLE' });
    }
    for (const member of acceptLoss ? removed : []) {
      member.state = MemberState.MEMBER_STATE_LEFT;
      member.removedBy = this.members[0]?.name ?? '';
    }
    const claimed = acceptLoss && waitMs >= this.claimMs;
    return { removed: acceptLoss, lost: this.lost, takenBackBy: this.takenBackBy, claimed };
  }

  #member(name: string): Member {
    this.#assertCluster();
    const member = this.members.find((one) => one.name === name);
    if (member === undefined) throw makeError(`no member is named ${name}`, { reason: 'UNKNOWN_MEMBER' });
    if (member.state === MemberState.MEMBER_STATE_LEFT) {
      throw makeError(`${name} has left`, { reason: 'MEMBER_LEFT' });
    }
    return member;
  }

  #assertCluster(): void {
    if (this.members.length === 0) throw makeError('this node stands alone', { reason: 'NO_CLUSTER' });
  }
}

const isActive = ({ state }: Member): boolean => state === MemberState.MEMBER_STATE_ACTIVE;

/** A member. Default: an active node. */
export function fakeMember(fields: Partial<Member> & { readonly name: string }): Member {
  return {
    nodeId: `id-${fields.name}`,
    role: MemberRole.MEMBER_ROLE_NODE,
    state: MemberState.MEMBER_STATE_ACTIVE,
    alive: true,
    suspect: false,
    partitionsHeld: 0,
    partitionsWanted: 0,
    version: '0.1.0',
    rpcAddress: '',
    gossipAddress: '',
    httpAddress: '',
    removedBy: '',
    ...fields,
  };
}

/** A partition. Default: its holder serves it and should hold it. */
export function fakePartition(
  fields: Partial<Partition> & { readonly id: number; readonly holder: string },
): Partition {
  return {
    holderNodeId: fields.holder === '' ? '' : `id-${fields.holder}`,
    epoch: 1,
    state: PartitionState.PARTITION_STATE_SERVING,
    queues: 0,
    tasks: 0,
    wanted: fields.holder,
    movingTo: '',
    movedRows: 0,
    movedBytes: 0,
    ...fields,
  };
}
