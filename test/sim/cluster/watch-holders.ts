import type { SimCluster, SimNode } from '@taskmaster/node/testing';
import type { OldCopies } from './old-copies.ts';
import type { Trouble } from './trouble.ts';

/** (e) Told of each change: nobody but its holder serves a partition, at any moment, and at each epoch there is one holder. */
export function watchHolders(
  cluster: SimCluster,
  trouble: Trouble,
  { partitions: old }: Pick<OldCopies, 'partitions'>,
): (node: SimNode) => void {
  const holderAt = new Map<string, string>();
  return (node) => {
    for (const { id, epoch, state } of node.partitions.held()) {
      // Of what an old copy says more than one may think that it holds it, until that is noticed.
      if (state !== 'serving' || old.has(id)) continue;
      const at = `${id} at epoch ${epoch}`;
      const first = holderAt.get(at);
      if (first === undefined) {
        holderAt.set(at, node.name);
        trouble.trace(() => `${node.name} serves partition ${at}`);
      } else if (first !== node.name) trouble.report(`(e) ${node.name} serves partition ${at}, as ${first} did`);
      for (const other of cluster.nodes.values()) {
        if (other === node || !other.isUp) continue;
        const theirs = other.partitions.holding(id);
        if (theirs?.kind === 'serving') {
          trouble.report(`(e) ${node.name} serves partition ${at}, and ${other.name} does at epoch ${theirs.epoch}`);
        }
      }
    }
  };
}
