import type { Refusal } from '@taskmaster/engine/domain';
import type { UnreachableNode } from '@taskmaster/proto';
import { RelayedRefusal } from '@taskmaster/server/calls';
import type { MessageType } from '@taskmaster/server/requests';
import { LostError, RefusedError, type UnaryMethod } from '../../upstream/upstream.ts';
import { isAboutRequest, refusalFor, unreachable as unreachableNodes } from '../routing/refusals.ts';
import type { RoutedCaller, Router } from '../routing/router.ts';
import type { RoutedNode } from '../routing/routes.ts';

/** Timeout of a node that gossip considers dead, in ms. Gossip is rarely wrong. */
const DEAD_MS = 500;

export interface Answers<R> {
  readonly replies: readonly R[];
  readonly unreachable: UnreachableNode[];
}

/**
 * Asks every node of the cluster for what it knows of the groups that it holds. Returns the replies, and names the nodes that
 * do not answer or cannot serve the request. Rejects with a `Refusal` if no node answers, if the request is invalid, or if the
 * caller cancelled it.
 */
export async function askAll<R>(
  router: Router,
  method: UnaryMethod,
  request: Uint8Array,
  type: MessageType<R>,
  caller: RoutedCaller,
): Promise<Answers<R>> {
  const replies: R[] = [];
  const missing: { readonly node: UnreachableNode; readonly refusal: Refusal }[] = [];
  const ask = async (node: RoutedNode): Promise<void> => {
    const until =
      router.clock.now() +
      (node.alive ? router.limits.fanOutTimeoutMs : Math.min(DEAD_MS, router.limits.fanOutTimeoutMs));
    const outcome = await router.send(
      node.address,
      { method, request: () => request, repetition: 'read' },
      // A caller with a short deadline still receives the replies that arrive in time.
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

/** The refusal if no node gave a reply. If all nodes refused, the first refusal: it has the right retry delay. */
function nobodyAnswers(refusals: readonly Refusal[]): Refusal {
  const [first] = refusals;
  if (first instanceof RelayedRefusal && refusals.every((refusal) => refusal instanceof RelayedRefusal)) return first;
  return unreachableNodes('every node', first?.message ?? 'no member is known', {});
}

function decoded<R>(type: MessageType<R>, reply: Uint8Array): R | LostError {
  try {
    return type.decode(reply);
  } catch (cause) {
    return new LostError('the node sent a damaged answer', 'broken', false, cause);
  }
}

/** Copies a caller without its deadline. A spread would not copy its getters. */
function withSender({ sender, access, gone, signal }: RoutedCaller): Omit<RoutedCaller, 'until'> {
  return { sender, access, gone, signal };
}
