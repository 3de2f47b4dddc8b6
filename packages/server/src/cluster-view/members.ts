import type { Instant } from '@taskmaster/engine/domain';

/**
 * - joining: known to the cluster, not ready to hold partitions.
 * - active: holds its share of the partitions.
 * - leaving: hands its partitions over.
 * - left: gone forever, because it was drained or removed.
 */
export type MemberState = 'joining' | 'active' | 'leaving' | 'left';

/**
 * The record of a member. Every node keeps it on disk, under the stable id of the member. It does not say whether the member is
 * alive: a crash does not change it.
 */
export interface MemberRecord {
  /** Stable id, kept on the disk of the member. */
  readonly nodeId: string;
  /** Unique among members that have not left. */
  readonly name: string;
  readonly state: MemberState;
  /** Number of changes of the record. Only the member itself changes it, except for its removal. */
  readonly version: number;
  /** `host:port` of its gRPC. */
  readonly rpcAddress: string;
  /** `host:port` of its gossip. */
  readonly gossipAddress: string;
  /** Id of the node that removed it. Empty if it was not removed. */
  readonly removedBy: string;
}

const RANK: Readonly<Record<MemberState, number>> = { joining: 0, active: 1, leaving: 2, left: 3 };

/**
 * The newer of two records of one member. A member that has left stays left. Otherwise the later version counts. Two different
 * records of one version can exist after a disk was restored: then the later state counts, and after that a fixed order, so that
 * all nodes choose the same one.
 */
export function mergeRecords(a: MemberRecord, b: MemberRecord): MemberRecord {
  if ((a.state === 'left') !== (b.state === 'left')) return a.state === 'left' ? a : b;
  if (a.version !== b.version) return a.version > b.version ? a : b;
  if (a.state !== b.state) return RANK[a.state] > RANK[b.state] ? a : b;
  return JSON.stringify(orderOf(a)) >= JSON.stringify(orderOf(b)) ? a : b;
}

const orderOf = ({ name, rpcAddress, gossipAddress, removedBy }: MemberRecord): readonly string[] => [
  name,
  rpcAddress,
  gossipAddress,
  removedBy,
];

export type Members = ReadonlyMap<string, MemberRecord>;

/** Merges two lists. The order, grouping and repetition of merges do not matter. */
export function mergeMembers(a: Members, b: Iterable<MemberRecord>): Members {
  let merged: Map<string, MemberRecord> | undefined;
  for (const record of b) {
    const known = (merged ?? a).get(record.nodeId);
    const newer = known ? mergeRecords(known, record) : record;
    if (newer === known) continue;
    merged ??= new Map(a);
    merged.set(record.nodeId, newer);
  }
  return merged ?? a;
}

/** The members in the ring, alive or not: a crash moves no partition. */
export const ringMembers = (members: Members): string[] =>
  [...members.values()].filter(({ state }) => state === 'active').map(({ nodeId }) => nodeId);

/** The members with this name that have not left: at most one, unless two joined at the same moment. */
export const membersNamed = (members: Members, name: string): MemberRecord[] =>
  [...members.values()].filter((member) => member.name === name && member.state !== 'left');

/** Whether an operator has removed the member. Its later reports of partitions do not count. */
export const isRemoved = (record: MemberRecord | undefined): boolean =>
  record?.state === 'left' && record.removedBy !== '';

/** Whether the member may hold partitions. */
export const isHolding = ({ state }: MemberRecord): boolean => state === 'active' || state === 'leaving';

/** The member that decides when these members are removed. Undefined if there is no other active member. */
export function deciderWithout(members: Members, nodeIds: readonly string[]): string | undefined {
  const [first] = ringMembers(members)
    .filter((id) => !nodeIds.includes(id))
    .sort();
  return first;
}

/** More hand-offs than two members can make before another member learns of them: each waits for a disk several times. */
const UNHEARD_HAND_OFFS = 1_000_000;

/**
 * An epoch later than any that removed members can have reached after the given one was known; see `Orphans`, O4. It grows with
 * their number: a claim whose node was removed before other members knew of it has another epoch than the next claim.
 */
export function epochBeyond(epoch: number, members: Members): number {
  const gone = [...members.values()].filter(({ state }) => state === 'left').length;
  return epoch + (gone > 1 ? gone * UNHEARD_HAND_OFFS : 2);
}

/**
 * The epoch for a claim of a partition whose epoch no member knows: the microseconds since 1970. A million is a second, so
 * epochs that `epochBeyond` has increased are earlier.
 */
export const epochOfUnknown = (now: Instant): number => now * 1000;
