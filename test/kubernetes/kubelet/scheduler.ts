import type { V1Pod } from '@kubernetes/client-node';

const ownerOf = ({ metadata }: V1Pod): string | undefined =>
  metadata?.ownerReferences?.find((owner) => owner.controller)?.uid;

/** The node with the fewest pods of the same controller, then with the fewest pods. It knows no affinity. */
export function chooseNode(pod: V1Pod, nodes: readonly string[], pods: readonly V1Pod[]): string {
  const count = (node: string, matches: (other: V1Pod) => boolean): number =>
    pods.filter((other) => other.spec?.nodeName === node && matches(other)).length;
  const [best] = nodes
    .map((node) => ({
      node,
      siblings: count(node, (other) => ownerOf(other) !== undefined && ownerOf(other) === ownerOf(pod)),
      all: count(node, () => true),
    }))
    .toSorted((a, b) => a.siblings - b.siblings || a.all - b.all);
  if (best === undefined) throw new TypeError('there are no nodes');
  return best.node;
}
