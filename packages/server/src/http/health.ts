import type { EngineHealth } from '../domain/commands.ts';
import { jsonReply, type Reply } from './reply.ts';

/** Of a node: its engine's, or why that is not served. */
export type NodeHealth = EngineHealth | { readonly kind: 'joining' | 'waiting'; readonly problem: string };

/** What each state means to whoever runs the node. */
const explanations: Readonly<Record<EngineHealth['kind'], string>> = {
  starting: 'the node is opening its data',
  serving: 'all that this node holds is served',
  full: 'the disk is full: no new tasks are taken until there is space; everything else is served',
  failed: 'a write failed: nothing is written any more; see the log, put the disk right and restart the node',
  stopping: 'the node is shutting down',
};

export const isReady = ({ kind }: NodeHealth): boolean => kind === 'serving' || kind === 'full';

export function explainHealth(health: NodeHealth): string {
  if (health.kind === 'joining') return `the node joins its cluster: ${health.problem}`;
  if (health.kind === 'waiting') return `the node is held back: ${health.problem}`;
  return explanations[health.kind];
}

/** The process is alive, whatever it is doing: a node that is not ready is not helped by a restart. */
export function livez(): Reply {
  return jsonReply({ status: 'alive' });
}

/** Whether the node should get requests. A full disk does not count: most of the service goes on. */
export function readyz(health: NodeHealth): Reply {
  const ready = isReady(health);
  return jsonReply(
    { status: ready ? 'ready' : 'not ready', state: health.kind, reason: explainHealth(health) },
    ready ? 200 : 503,
  );
}
