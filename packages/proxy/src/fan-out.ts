import type { MessageType } from '@taskmaster/node/grpc';
import { decodeWhole, type UnreachableNode } from '@taskmaster/proto';
import { isPassing } from './passing.ts';
import { refusalFor, unreachable as unreachableNodes } from './refusals.ts';
import type { RoutedCaller, Router } from './router.ts';
import type { RoutedNode } from './routes.ts';

/** How long a node that is thought to be dead is given, in ms: gossip can be wrong, but not so often. */
const DEAD_MS = 500;

export interface Answers<R> {
  readonly replies: readonly R[];
  readonly unreachable: UnreachableNode[];
}

/**
 * Asks every node of the cluster. Rejects with a `Refusal` where no node answers, or where one refuses for a reason that
 * does not pass: the others would, too.
 */
export async function askAll<R>(
  router: Router,
  method: 'ListQueues' | 'GetQueueStats',
  request: Uint8Array,
  type: MessageType<R>,
  caller: RoutedCaller,
): Promise<Answers<R>> {
  const replies: R[] = [];
  const unreachable: UnreachableNode[] = [];
  const ask = async (node: RoutedNode): Promise<void> => {
    const until =
      router.clock.now() + (node.alive ? router.limits.fanOutMs : Math.min(DEAD_MS, router.limits.fanOutMs));
    const outcome = await router.send(
      node.address,
      { method, request: () => request, repetition: 'harmless' },
      // Whoever does not wait long enough for all would get nothing at all.
      { ...withSender(caller), until: Math.min(until, caller.until ?? Number.POSITIVE_INFINITY) },
    );
    if (outcome instanceof Uint8Array) {
      replies.push(decodeWhole(type, outcome));
      return;
    }
    const refusal = refusalFor(outcome);
    if (!isPassing(refusal) && refusal.reason !== 'DEADLINE_EXCEEDED') throw refusal;
    const { nodeId, name, address } = node;
    unreachable.push({ nodeId, name, address, problem: refusal.message });
  };
  await Promise.all(router.routes.nodes().map(ask));
  if (replies.length === 0) throw unreachableNodes('every node', unreachable[0]?.problem ?? 'no member is known', {});
  return { replies, unreachable: unreachable.sort((a, b) => (a.address < b.address ? -1 : 1)) };
}

/** Callers have getters, which a spread would not follow. */
function withSender({ sender, gone, signal }: RoutedCaller): Omit<RoutedCaller, 'until'> {
  return { sender, gone, signal };
}
