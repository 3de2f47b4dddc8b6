import type { EngineHealth } from '@taskmaster/engine/domain';
import { StoreLostError } from '@taskmaster/engine/ports';
import { jsonReply, type Reply } from './reply.ts';

/** Health of a node: that of its engine, or the reason why the node does not serve. */
export type NodeHealth = EngineHealth | { readonly kind: 'joining' | 'waiting' | 'skewed'; readonly problem: string };

/** The states, explained to operators. */
const explanations: Readonly<Record<EngineHealth['kind'], string>> = {
  starting: 'the node is opening its data',
  serving: 'all groups that the node holds are served',
  full: 'the disk is full: enqueues are refused until there is space; all other calls go on',
  failed: 'a write failed, and the node writes nothing more: read the log, repair the disk and restart the node',
  stopping: 'the node is shutting down',
};

export const isReady = ({ kind }: NodeHealth): boolean => kind === 'serving' || kind === 'full';

export function explainHealth(health: NodeHealth): string {
  if (health.kind === 'joining') return `the node is joining its cluster: ${health.problem}`;
  if (health.kind === 'waiting') return `the node does not serve: ${health.problem}`;
  if (health.kind === 'skewed') return `the node cannot forward calls: ${health.problem}`;
  if (health.kind === 'starting' && health.replayedAtoms) {
    return `${explanations.starting}: ${health.replayedAtoms} entries of the commit log are replayed`;
  }
  if (health.kind === 'failed' && health.cause instanceof StoreLostError) return health.cause.message;
  return explanations[health.kind];
}

/** Always alive: a restart does not help a node that is not ready. */
export function livez(): Reply {
  return jsonReply({ status: 'alive' });
}

/** Whether the node has opened its data. It may still wait for other members. */
export function startupz(health: NodeHealth): Reply {
  const started = health.kind !== 'starting';
  return jsonReply({ status: started ? 'started' : 'starting', reason: explainHealth(health) }, started ? 200 : 503);
}

/** Whether the node should get requests. A node with a full disk is ready, because most calls go on. */
export function readyz(health: NodeHealth): Reply {
  const ready = isReady(health);
  return jsonReply(
    { status: ready ? 'ready' : 'not ready', state: health.kind, reason: explainHealth(health) },
    ready ? 200 : 503,
  );
}
