import type { SimCluster, SimNode } from '@taskmaster/node/testing';
import type { OldCopies } from '../faults/old-copies.ts';
import type { Trouble } from '../trouble.ts';

/** (e) Checked at each change: at any time at most one node serves a partition, and each epoch has one holder. */
export function watchHolders(
  cluster: SimCluster,
  trouble: Trouble,
  { partitions: old }: Pick<OldCopies, 'partitions'>,
): (node: SimNode) => void {
  const holderAt = new Map<string, string>();
  return (node) => {
    for (const { id, epoch, state } of node.partitions.held()) {
      // Until an old copy is noticed, several nodes may believe that they hold its partitions.
      if (state !== 'serving' || old.has(id) || node.h.process?.isFenced === true) continue;
      const at = `${id} at epoch ${epoch}`;
      const first = holderAt.get(at);
      if (first === undefined) {
        holderAt.set(at, node.name);
        trouble.trace(() => `${node.name} serves partition ${at}`);
      } else if (first !== node.name) trouble.report(`(e) ${node.name} serves partition ${at}, as ${first} did`);
      for (const other of cluster.nodes.values()) {
        if (other === node || !other.isUp) continue;
        const theirs = other.partitions.holding(id);
        // A node that was fenced hears of it from the database, and answers nothing before.
        if (theirs?.kind === 'serving' && other.h.process?.isFenced !== true) {
          trouble.report(`(e) ${node.name} serves partition ${at}, and ${other.name} does at epoch ${theirs.epoch}`);
        }
      }
    }
  };
}
