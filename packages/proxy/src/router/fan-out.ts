import { decodeWhole, type UnreachableNode } from '@taskmaster/proto';
import type { Refusal } from '@taskmaster/server/domain';
import { type MessageType, RelayedRefusal } from '@taskmaster/server/service';
import { LostError, RefusedError } from '../upstream/upstream.ts';
import { isAboutRequest } from './passing.ts';
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
 * Asks every node of the cluster. Those that do not answer, or refuse for what is the matter with themselves, are named.
 * Rejects with a `Refusal` where no node answers, where the request is wrong, and where the caller gave up.
 */
export async function askAll<R>(
  router: Router,
  method: 'ListQueues' | 'GetQueueStats',
  request: Uint8Array,
  type: MessageType<R>,
  caller: RoutedCaller,
): Promise<Answers<R>> {
  const replies: R[] = [];
  const missing: { readonly node: UnreachableNode; readonly refusal: Refusal }[] = [];
  const ask = async (node: RoutedNode): Promise<void> => {
    const until =
      router.clock.now() + (node.alive ? router.limits.fanOutMs : Math.min(DEAD_MS, router.limits.fanOutMs));
    const outcome = await router.send(
      node.address,
      { method, request: () => request, repetition: 'harmless' },
      // Whoever does not wait long enough for all would get nothing at all.
      { ...withSender(caller), until: Math.min(until, caller.until ?? Number.POSITIVE_INFINITY) },
    );
    const reply = outcome instanceof Uint8Array ? decoded(type, outcome) : outcome;
    if (!(reply instanceof RefusedError || reply instanceof LostError)) {
      replies.push(reply);
      return;
    }
    const refusal = refusalFor(reply);
    if (isAboutRequest(refusal)) throw refusal;
    const { nodeId, name, address } = node;
    missing.push({ node: { nodeId, name, address, problem: refusal.message }, refusal });
  };
  await Promise.all(router.routes.nodes().map(ask));
  if (replies.length === 0) throw nobodyAnswers(missing.map(({ refusal }) => refusal));
  const unreachable = missing.map(({ node }) => node);
  return { replies, unreachable: unreachable.sort((a, b) => (a.address < b.address ? -1 : 1)) };
}

/** Nodes that are all there are heard: they know when to come back. */
function nobodyAnswers(refusals: readonly Refusal[]): Refusal {
  const [first] = refusals;
  if (first instanceof RelayedRefusal && refusals.every((refusal) => refusal instanceof RelayedRefusal)) return first;
  return unreachableNodes('every node', first?.message ?? 'no member is known', {});
}

function decoded<R>(type: MessageType<R>, reply: Uint8Array): R | LostError {
  try {
    return decodeWhole(type, reply);
  } catch (cause) {
    return new LostError('the node sent a damaged answer', 'broken', false, cause);
  }
}

/** Callers have getters, which a spread would not follow. */
function withSender({ sender, gone, signal }: RoutedCaller): Omit<RoutedCaller, 'until'> {
  return { sender, gone, signal };
}
