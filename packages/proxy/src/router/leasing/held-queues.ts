import { encodeToBuffer, LeaseTasksRequest } from '@taskmaster/proto';
import type { Refusal } from '@taskmaster/server/domain';
import { RefusedError } from '../../upstream/upstream.ts';
import { refusalFor, unreachable } from '../routing/refusals.ts';
import type { RoutedCall, RoutedCaller, Router } from '../routing/router.ts';

/** Queues that one node holds, as far as the router knows. */
export interface HeldQueues {
  /** Address of the holder. Undefined if it is unknown. */
  readonly address: string | undefined;
  readonly queues: readonly string[];
}

/** Sorts queues by their holders. */
export function byHolder(router: Router, queues: readonly string[]): HeldQueues[] {
  const groups = Map.groupBy(queues, (queue) => router.routes.holderOf(router.partitionOfQueue(queue))?.address);
  return [...groups].map(([address, held]) => ({ address, queues: held }));
}

/** Makes one attempt at the queues of one node. Learns the holder that a NOT_HOLDER names. */
export async function askHolder(
  router: Router,
  { address, queues }: HeldQueues,
  caller: RoutedCaller,
  call: Pick<RoutedCall, 'request' | 'signal'>,
): Promise<Uint8Array | Refusal> {
  if (address === undefined) return unreachable(`the holder of ${queues[0]}`, 'no node knows it', {});
  const outcome = await router.send(address, { ...call, method: 'LeaseTasks', repetition: 'unsafe' }, caller);
  if (outcome instanceof Uint8Array) return outcome;
  if (outcome instanceof RefusedError && outcome.error.reason === 'NOT_HOLDER') router.learnFrom(outcome);
  return refusalFor(outcome);
}

export function encodeLease(
  request: LeaseTasksRequest,
  queues: readonly string[],
  change: Partial<LeaseTasksRequest>,
): Uint8Array {
  return encodeToBuffer(LeaseTasksRequest, { ...request, ...change, queues: [...queues] });
}
