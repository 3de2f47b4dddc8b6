import type { PartitionId } from '@taskmaster/engine/domain';
import { Memo } from '@taskmaster/proto';
import HashRing from 'hashring';

/** Points of each node on the ring. With 160, the fullest of ten nodes has at most a sixth more than the mean. */
const POINTS = 160;

/** Results are remembered: most changes of member records leave the ring the same, and hashing is expensive. */
const remembered = new Memo<string, readonly string[]>(32);

/**
 * The node that should hold each partition, by consistent hashing over stable node ids (the paper, 3.4). The result
 * depends only on the set of nodes, so it is the same on every member. A new node takes its share from all others and
 * moves nothing between them; a leaving node gives its share back. Indexed by partition; empty without nodes.
 */
export function desiredHolders(nodeIds: Iterable<string>, partitions: number): readonly string[] {
  const ids = [...new Set(nodeIds)].sort();
  if (ids.length === 0) return [];
  const question = `${partitions} ${JSON.stringify(ids)}`;
  const known = remembered.get(question);
  if (known !== undefined) return known;
  const ring = new HashRing(ids, 'md5', { 'vnode count': POINTS });
  const holders = Array.from({ length: partitions }, (_, id) => ring.get(ringKey(id as PartitionId)));
  return remembered.remember(question, holders);
}

const ringKey = (id: PartitionId): string => `p${id}`;
