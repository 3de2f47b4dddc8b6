import type { Refusal } from '@taskmaster/engine/domain';
import { encodeToBuffer, LeaseTasksRequest, type QueuePattern } from '@taskmaster/proto';
import { RefusedError } from '../../upstream/upstream.ts';
import { refusalFor, unreachable } from '../routing/refusals.ts';
import type { RoutedCall, RoutedCaller, Router } from '../routing/router.ts';

/** What a lease request asks for, or the part of it that one node holds. */
export interface LeaseSources {
  /** Without duplicates. */
  readonly queues: readonly string[];
  readonly patterns: readonly QueuePattern[];
}

/** A part of a lease request that one node holds, as far as the router knows. */
export interface HeldQueues extends LeaseSources {
  /** Address of the holder. Undefined if it is unknown. */
  readonly address: string | undefined;
}

/** The partition of the group that a pattern names. Undefined: every node may hold queues that match. */
export const partitionOfPattern = (router: Router, { group }: QueuePattern): number | undefined =>
  group === undefined ? undefined : router.partitionOfQueue(`${group}#`);

/** Sorts queues and patterns of one group each by their holders. */
export function byHolder(router: Router, { queues, patterns }: LeaseSources): HeldQueues[] {
  const parts = new Map<string | undefined, { queues: string[]; patterns: QueuePattern[] }>();
  const partOf = (partition: number) => {
    const address = router.routes.holderOf(partition)?.address;
    const part = parts.get(address) ?? { queues: [], patterns: [] };
    parts.set(address, part);
    return part;
  };
  for (const queue of queues) partOf(router.partitionOfQueue(queue)).queues.push(queue);
  for (const pattern of patterns) {
    const partition = partitionOfPattern(router, pattern);
    if (partition !== undefined) partOf(partition).patterns.push(pattern);
  }
  return [...parts].map(([address, part]) => ({ address, ...part }));
}

/** Makes one attempt at the queues of one node. Learns the holder that a NOT_HOLDER names. */
export async function askHolder(
  router: Router,
  { address, queues, patterns }: HeldQueues,
  caller: RoutedCaller,
  call: Pick<RoutedCall, 'request' | 'signal'>,
): Promise<Uint8Array | Refusal> {
  if (address === undefined) {
    return unreachable(`the holder of ${queues[0] ?? patterns[0]?.group}`, 'no node knows it', {});
  }
  const outcome = await router.send(address, { ...call, method: 'LeaseTasks', repetition: 'unsafe' }, caller);
  if (outcome instanceof Uint8Array) return outcome;
  if (outcome instanceof RefusedError && outcome.error.reason === 'NOT_HOLDER') router.learnFrom(outcome);
  return refusalFor(outcome);
}

/** How many of some queues of a request come before a pattern of it. */
export function placeOf(pattern: QueuePattern, request: LeaseTasksRequest, queues: readonly string[]): number {
  if (pattern.afterQueues === 0) return 0;
  const ahead = new Set(request.queues.slice(0, pattern.afterQueues));
  return queues.filter((queue) => ahead.has(queue)).length;
}

/** A part of a request, whose queues are without duplicates. */
export function encodeLease(
  request: LeaseTasksRequest,
  { queues, patterns }: LeaseSources,
  change: Partial<LeaseTasksRequest>,
): Uint8Array {
  const ofPart = patterns.map((pattern) => ({ ...pattern, afterQueues: placeOf(pattern, request, queues) }));
  return encodeToBuffer(LeaseTasksRequest, { ...request, ...change, queues: [...queues], patterns: ofPart });
}
