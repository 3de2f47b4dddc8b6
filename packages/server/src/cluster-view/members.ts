/**
 * - joining: known to the cluster, not ready to hold partitions.
 * - active: holds its part of the partitions.
 * - leaving: hands over what it has.
 * - left: gone for good, by its own drain or by an operator's decision.
 */
export type MemberState = 'joining' | 'active' | 'leaving' | 'left';

/**
 * What the cluster knows of a member: kept by every node, durable, known by its stable id, whatever its address. Who is
 * alive is another matter: a crash changes nothing here.
 */
export interface MemberRecord {
  /** Stable id, kept on the member's disk. */
  readonly nodeId: string;
  /** Unique among members that have not left. */
  readonly name: string;
  readonly state: MemberState;
  /** Only the member itself changes its record, by adding one; but for its removal. */
  readonly version: number;
  /** `host:port` of its gRPC. */
  readonly rpcAddress: string;
  /** `host:port` of its datagrams. */
  readonly gossipAddress: string;
  /** Node id of who gave it up; empty unless somebody did. */
  readonly removedBy: string;
}

const RANK: Readonly<Record<MemberState, number>> = { joining: 0, active: 1, leaving: 2, left: 3 };

/**
 * The newer of two records of one member. Whoever left stays so; otherwise the later version counts. Two different records
 * of one version come of a disk that was set back: then the state that is further on counts, and what is left is decided
 * by order alone, so that all nodes decide alike.
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

/** Everything either of the two knows. Order, grouping and repetition of merges do not matter. */
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

/** Members the ring is built over, alive or not: a crash moves nothing. */
export const ringMembers = (members: Members): string[] =>
  [...members.values()].filter(({ state }) => state === 'active').map(({ nodeId }) => nodeId);

/** The members that have this name and have not left: one at most, unless two joined at the same moment. */
export const membersNamed = (members: Members, name: string): MemberRecord[] =>
  [...members.values()].filter((member) => member.name === name && member.state !== 'left');

/** Given up by an operator: whatever it does or says from now on, it holds nothing. */
export const isRemoved = (record: MemberRecord | undefined): boolean =>
  record?.state === 'left' && record.removedBy !== '';

/** Whether it holds partitions, or may. */
export const isHolding = ({ state }: MemberRecord): boolean => state === 'active' || state === 'leaving';

/** The one that decides for all when these members are given up; undefined where there is no other active member. */
export function deciderWithout(members: Members, nodeIds: readonly string[]): string | undefined {
  const [first] = ringMembers(members)
    .filter((id) => !nodeIds.includes(id))
    .sort();
  return first;
}

/** More hand-offs than two members make unheard: each waits for a disk several times. */
const UNHEARD_HAND_OFFS = 1_000_000;

/** A later epoch than any that members who are gone reached after this one was heard of; see `Orphans`, O4. */
export function epochBeyond(epoch: number, members: Members): number {
  const gone = [...members.values()].filter(({ state }) => state === 'left').length;
  return epoch + (gone > 1 ? UNHEARD_HAND_OFFS : 2);
}
