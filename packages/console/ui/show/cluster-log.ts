/** What somebody has done, or a member has become, as a node has recorded it. */
export interface LoggedChange {
  /** In ms since 1970. */
  readonly at: number;
  /** The node that recorded it. */
  readonly node: string;
  readonly kind: string;
  readonly action: string;
  readonly target?: string;
  readonly result: string;
  readonly principal?: string;
  readonly address?: string;
}

/** A change with all nodes that have recorded it. */
export interface MergedChange extends LoggedChange {
  readonly nodes: readonly string[];
}

/** What several nodes record within this time is one change, in ms. */
const TOGETHER_MS = 10_000;

/** Each node records what it learns of members. `changes`: the latest first. */
export function mergedChanges(changes: readonly LoggedChange[]): MergedChange[] {
  const merged: MergedChange[] = [];
  const latest = new Map<string, number>();
  for (const change of changes) {
    const { kind, action, target, result, principal, address, node } = change;
    const key = JSON.stringify([kind, action, target, result, principal, address]);
    const at = latest.get(key);
    const same = at === undefined ? undefined : merged[at];
    if (at !== undefined && same !== undefined && same.at - change.at < TOGETHER_MS && !same.nodes.includes(node)) {
      merged[at] = { ...same, nodes: [...same.nodes, node].sort() };
      continue;
    }
    latest.set(key, merged.length);
    merged.push({ ...change, nodes: [node] });
  }
  return merged;
}
