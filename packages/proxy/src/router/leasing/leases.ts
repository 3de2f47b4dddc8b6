import { LeaseTasksRequest, parseQueueName, type QueueName } from '@taskmaster/proto';
import type { Refusal } from '@taskmaster/server/domain';
import { sleep } from '@taskmaster/server/ports';
import {
  decodeRequest,
  entryBounds,
  parseLease,
  recheckOfLease,
  requireLease,
  waitingBytes,
} from '@taskmaster/server/service';
import { readEntries, withNumbers } from '../../upstream/raw-codec.ts';
import { cancelled, isRefusedBy, isWorthRepeating } from '../routing/refusals.ts';
import type { RoutedCaller, Router } from '../routing/router.ts';
import { GatheredTasks } from './gathered-tasks.ts';
import { giveBack } from './give-back.ts';
import { askHolder, byHolder, encodeLease, type HeldQueues } from './held-queues.ts';
import { LinkedSignal } from './linked-signal.ts';
import { WaitingLease } from './waiting-lease.ts';

/** Number of the field `wait_ms` in LeaseTasksRequest. */
const WAIT_FIELD = 5;
const NO_TASKS = new Uint8Array(0);
const NO_NAMES: readonly QueueName[] = [];
/** Maximum number of requests to nodes that keep the order of the queues. If there would be more, each node is asked once. */
const STRICT_STEPS = 16;

/** Leases tasks from the holders of the queues. Rejects with a `Refusal`. */
export async function leaseTasks(router: Router, bytes: Uint8Array, caller: RoutedCaller): Promise<Uint8Array> {
  const request = decodeRequest(LeaseTasksRequest, asBuffer(bytes), entryBounds.lease);
  const { access } = caller;
  const names = access.isUnlimited ? NO_NAMES : request.queues.map(parseQueueName);
  requireLease(access, names);
  if (request.waitMs > 0) caller.beginWaiting?.(waitingBytes(request.queues), recheckOfLease(access, names));
  const [first, ...others] = new Set(request.queues.map((queue) => router.partitionOfQueue(queue)));
  if (first === undefined) {
    return router.toAnyNode({ method: 'LeaseTasks', request: () => bytes, repetition: 'unsafe' }, caller);
  }
  const reply =
    others.length === 0
      ? await leaseOfOne(router, first, request, bytes, caller)
      : await leaseOfMany(router, request, caller);
  if (!caller.gone) return reply;
  giveBack(router, readEntries(reply));
  throw cancelled();
}

/** Leases from queues of one partition: its holder does all the work. */
async function leaseOfOne(
  router: Router,
  partition: number,
  { waitMs }: LeaseTasksRequest,
  bytes: Uint8Array,
  caller: RoutedCaller,
): Promise<Uint8Array> {
  const common = { method: 'LeaseTasks', repetition: 'unsafe' } as const;
  if (waitMs <= 0) return router.toHolder(partition, { ...common, request: () => bytes }, caller);
  const began = router.clock.now();
  let attempts = 0;
  const request = (): Uint8Array => {
    // The first attempt sends the request unchanged, so that the holder refuses a wait that is out of range.
    if (attempts++ === 0) return bytes;
    return withNumbers(bytes, { [WAIT_FIELD]: Math.max(0, waitMs - (router.clock.now() - began)) });
  };
  using linked = new LinkedSignal(router, caller.signal);
  try {
    return await router.toHolder(partition, { ...common, request, signal: linked.signal }, caller);
  } catch (thrown) {
    if (isRefusedBy(thrown, 'CANCELLED') && router.isStopping && !caller.gone) return NO_TASKS;
    throw thrown;
  }
}

/** Leases from queues of several nodes: asks the nodes in order, then waits at all of them at the same time. */
async function leaseOfMany(router: Router, request: LeaseTasksRequest, caller: RoutedCaller): Promise<Uint8Array> {
  // The whole request is validated first: after a split, one node could grant tasks and another refuse the request.
  const { maxTasks, maxBytes, waitMs } = parseLease(request, '');
  const queues = [...new Set(request.queues)];
  const until = router.clock.now() + waitMs;
  const gathered = new GatheredTasks(queues, maxTasks, maxBytes);
  const trouble = await askInOrder(router, request, queues, gathered, caller);
  if (gathered.count > 0) return gathered.reply();
  if (waitMs > 0 && !router.isStopping) {
    return new WaitingLease(router, { ...request, queues }, until, caller).run();
  }
  if (trouble !== undefined) throw trouble;
  return NO_TASKS;
}

/** Leases available tasks without waiting. Resolves with the refusal if some queues could not be asked. */
async function askInOrder(
  router: Router,
  request: LeaseTasksRequest,
  queues: readonly string[],
  gathered: GatheredTasks,
  caller: RoutedCaller,
): Promise<Refusal | undefined> {
  const holdUntil = router.clock.now() + router.limits.holdTimeoutMs;
  let left = queues;
  for (let attempt = 1; ; attempt++) {
    const failed: string[] = [];
    let trouble: Refusal | undefined;
    for (const part of inSteps(router, left, request.anyOrder)) {
      if (gathered.isFull || caller.gone) return undefined;
      const problem = await askOne(router, request, part, gathered, caller);
      if (problem === undefined) continue;
      failed.push(...part.queues);
      trouble = problem;
      if (!isWorthRepeating(problem)) break;
    }
    if (trouble === undefined || gathered.count > 0) return undefined;
    if (!isWorthRepeating(trouble)) throw trouble;
    // A request that waits anyway waits at the nodes that answer.
    const pauseMs = router.pauseMs(attempt);
    if (request.waitMs > 0 || !router.mayHold || router.clock.now() + pauseMs >= holdUntil) return trouble;
    await sleep(router.clock, pauseMs);
    left = failed;
  }
}

async function askOne(
  router: Router,
  request: LeaseTasksRequest,
  part: HeldQueues,
  gathered: GatheredTasks,
  caller: RoutedCaller,
): Promise<Refusal | undefined> {
  const { roomTasks, roomBytes } = gathered;
  const outcome = await askHolder(router, part, caller, {
    request: () => encodeLease(request, part.queues, { maxTasks: roomTasks, maxBytes: roomBytes, waitMs: 0 }),
  });
  if (!(outcome instanceof Uint8Array)) return outcome;
  const tooMany = gathered.add(outcome);
  if (tooMany.length > 0) giveBack(router, tooMany);
  return undefined;
}

/** Sorts queues by their holders, in the order in which the nodes are asked. */
function inSteps(router: Router, queues: readonly string[], anyOrder: boolean): HeldQueues[] {
  if (anyOrder) return byHolder(router, queues);
  const steps: { address: string | undefined; queues: string[] }[] = [];
  for (const queue of queues) {
    const address = router.routes.holderOf(router.partitionOfQueue(queue))?.address;
    const last = steps.at(-1);
    if (last !== undefined && last.address === address) last.queues.push(queue);
    else steps.push({ address, queues: [queue] });
  }
  return steps.length <= STRICT_STEPS ? steps : byHolder(router, queues);
}

const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
