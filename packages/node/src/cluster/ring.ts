import HashRing from 'hashring';
import type { PartitionId } from '../domain/ids.ts';

/** Points of a node on the ring: 160 keep the fullest of ten nodes within a sixth of the mean. */
const POINTS = 160;

/**
 * Which node should hold each partition, by consistent hashing over stable node ids (the paper, 3.4): the same on every
 * member, whatever the order in which nodes came and went. A node that comes takes its part from all others and moves
 * nothing between them; one that goes gives its part back. Indexed by partition; empty without nodes.
 */
export function desiredHolders(nodeIds: Iterable<string>, partitions: number): readonly string[] {
  const ids = [...new Set(nodeIds)].sort();
  if (ids.length === 0) return [];
  const ring = new HashRing(ids, 'md5', { 'vnode count': POINTS });
  return Array.from({ length: partitions }, (_, id) => ring.get(ringKey(id as PartitionId)));
}

const ringKey = (id: PartitionId): string => `p${id}`;
