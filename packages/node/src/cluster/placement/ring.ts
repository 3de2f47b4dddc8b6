import type { PartitionId } from '@taskmaster/server/domain';
import HashRing from 'hashring';

/** Points of a node on the ring: 160 keep the fullest of ten nodes within a sixth of the mean. */
const POINTS = 160;

/** Most changes of records leave the ring as it is, and hashing is all the work there is. */
const REMEMBERED = 32;
const remembered = new Map<string, readonly string[]>();

/**
 * Which node should hold each partition, by consistent hashing over stable node ids (the paper, 3.4): the same on every
 * member, whatever the order in which nodes came and went. A node that comes takes its part from all others and moves
 * nothing between them; one that goes gives its part back. Indexed by partition; empty without nodes.
 */
export function desiredHolders(nodeIds: Iterable<string>, partitions: number): readonly string[] {
  const ids = [...new Set(nodeIds)].sort();
  if (ids.length === 0) return [];
  const question = `${partitions} ${JSON.stringify(ids)}`;
  const known = remembered.get(question);
  if (known !== undefined) return known;
  const ring = new HashRing(ids, 'md5', { 'vnode count': POINTS });
  const holders = Array.from({ length: partitions }, (_, id) => ring.get(ringKey(id as PartitionId)));
  if (remembered.size >= REMEMBERED) remembered.clear();
  remembered.set(question, holders);
  return holders;
}

const ringKey = (id: PartitionId): string => `p${id}`;
