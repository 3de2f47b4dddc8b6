import type { Refusal } from '@taskmaster/engine/domain';
import { sleep } from '@taskmaster/engine/ports';
import { type LeaseTasksRequest, methods, parseQueueName, type QueuePattern } from '@taskmaster/proto';
import { recheckOfLease, requireLease, waitingBytes } from '@taskmaster/server/calls';
import { decodeCall, parseLease } from '@taskmaster/server/requests';
import { readEntries, withNumbers } from '../../upstream/raw-codec.ts';
import { cancelled, isRefusedBy, isWorthRepeating } from '../routing/refusals.ts';
import type { RoutedCaller, Router } from '../routing/router.ts';
import { GatheredTasks } from './gathered-tasks.ts';
import { giveBack } from './give-back.ts';
import {
  askHolder,
  byHolder,
  encodeLease,
  type HeldQueues,
  type LeaseSources,
  partitionOfPattern,
  placeOf,
} from './held-queues.ts';
import { LinkedSignal } from './linked-signal.ts';
import { WaitingLease } from './waiting-lease.ts';

/** Number of the field `wait_ms` in LeaseTasksRequest. */
const WAIT_FIELD = 5;
const NO_TASKS = new Uint8Array(0);
const NO_SOURCES = { queues: [], patterns: [] };
/** Maximum number of requests to nodes that keep the order of the queues. If there would be more, each node is asked once. */
const STRICT_STEPS = 16;

/** Leases tasks from the holders of the queues. Rejects with a `Refusal`. */
export async function leaseTasks(router: Router, bytes: Uint8Array, caller: RoutedCaller): Promise<Uint8Array> {
  const request = decodeCall(methods.leaseTasks, asBuffer(bytes));
  const { access } = caller;
  const { patterns } = request;
  const sources = access.isUnlimited ? NO_SOURCES : { queues: request.queues.map(parseQueueName), patterns };
  requireLease(access, sources);
  if (request.waitMs > 0) caller.beginWaiting?.(waitingBytes(request), recheckOfLease(access, sources));
  const partitions = new Set<number | undefined>(request.queues.map((queue) => router.partitionOfQueue(queue)));
  for (const pattern of patterns) partitions.add(partitionOfPattern(router, pattern));
  const [first] = partitions;
  if (partitions.size === 0) {
    return router.toAnyNode({ method: 'LeaseTasks', request: () => bytes, repetition: 'unsafe' }, caller);
  }
  const reply =
    partitions.size === 1 && first !== undefined
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
async function leaseOfMany(router: Router, given: LeaseTasksRequest, caller: RoutedCaller): Promise<Uint8Array> {
  // The whole request is validated first: after a split, one node could grant tasks and another refuse the request.
  const { maxBytes, waitMs } = parseLease(given, '');
  const request = withoutDuplicates(given);
  const until = router.clock.now() + waitMs;
  const gathered = new GatheredTasks(request, maxBytes);
  const trouble = await askInOrder(router, request, gathered, caller);
  if (gathered.count > 0) return gathered.reply();
  if (waitMs > 0 && !router.isStopping) return new WaitingLease(router, request, until, caller).run();
  if (trouble !== undefined) throw trouble;
  return NO_TASKS;
}

function withoutDuplicates(request: LeaseTasksRequest): LeaseTasksRequest {
  const distinct = (queues: readonly string[]): string[] => [...new Set(queues)];
  const patterns = request.patterns.map((pattern) => ({
    ...pattern,
    afterQueues: distinct(request.queues.slice(0, pattern.afterQueues)).length,
  }));
  patterns.sort((a, b) => a.afterQueues - b.afterQueues);
  return { ...request, queues: distinct(request.queues), patterns };
}

/**
 * Leases available tasks without waiting. Resolves with the refusal if some queues could not be asked. A pattern over all groups
 * leaves out nodes that do not answer, unless none does.
 */
async function askInOrder(
  router: Router,
  request: LeaseTasksRequest,
  gathered: GatheredTasks,
  caller: RoutedCaller,
): Promise<Refusal | undefined> {
  const holdUntil = router.clock.now() + router.limits.holdTimeoutMs;
  let left: LeaseSources = request;
  for (let attempt = 1; ; attempt++) {
    const failed: HeldQueues[] = [];
    let trouble: Refusal | undefined;
    let answers = 0;
    for (const part of inSteps(router, request, left)) {
      if (gathered.isFull || caller.gone) return undefined;
      const problem = await askOne(router, request, part, gathered, caller);
      if (problem === undefined) {
        answers++;
        continue;
      }
      failed.push(part);
      if (!isWorthRepeating(problem)) {
        trouble = problem;
        break;
      }
      if (answers === 0 || !isOverAllGroups(part)) trouble = problem;
    }
    if (answers > 0 && failed.every(isOverAllGroups)) return undefined;
    if (trouble === undefined || gathered.count > 0) return undefined;
    if (!isWorthRepeating(trouble)) throw trouble;
    // A request that waits anyway waits at the nodes that answer.
    const pauseMs = router.pauseMs(attempt);
    if (request.waitMs > 0 || !router.mayHold || router.clock.now() + pauseMs >= holdUntil) return trouble;
    await sleep(router.clock, pauseMs);
    left = {
      queues: failed.flatMap(({ queues }) => queues),
      patterns: [...new Set(failed.flatMap(({ patterns }) => patterns))],
    };
  }
}

/** True if other nodes may have tasks for all of the part. */
const isOverAllGroups = ({ queues, patterns }: LeaseSources): boolean =>
  queues.length === 0 && patterns.every(({ group }) => group === undefined);

async function askOne(
  router: Router,
  request: LeaseTasksRequest,
  part: HeldQueues,
  gathered: GatheredTasks,
  caller: RoutedCaller,
): Promise<Refusal | undefined> {
  const { roomTasks, roomBytes } = gathered;
  // The worker begins the first tasks of the whole reply.
  const { starts } = request;
  const rest = starts && { ...starts, now: Math.max(0, starts.now - gathered.count) };
  const outcome = await askHolder(router, part, caller, {
    request: () => encodeLease(request, part, { maxTasks: roomTasks, maxBytes: roomBytes, waitMs: 0, starts: rest }),
  });
  if (!(outcome instanceof Uint8Array)) return outcome;
  const tooMany = gathered.add(outcome);
  if (tooMany.length > 0) giveBack(router, tooMany);
  return undefined;
}

interface Step {
  readonly address: string | undefined;
  readonly queues: string[];
  readonly patterns: QueuePattern[];
}

/** Divides a request among the nodes, in the order in which they are asked. */
function inSteps(router: Router, request: LeaseTasksRequest, sources: LeaseSources): readonly HeldQueues[] {
  const { queues, patterns } = sources;
  const overAll = patterns.filter(({ group }) => group === undefined);
  const strict: Step[] = [];
  const stepAt = (address: string | undefined): Step => {
    const last = strict.at(-1);
    if (last !== undefined && last.address === address) return last;
    const step: Step = { address, queues: [], patterns: [] };
    strict.push(step);
    return step;
  };
  const holderOf = (partition: number): string | undefined => router.routes.holderOf(partition)?.address;
  const addPatterns = (position: number): void => {
    for (const pattern of patterns) {
      if (placeOf(pattern, request, queues) !== position) continue;
      const partition = partitionOfPattern(router, pattern);
      if (partition !== undefined) {
        stepAt(holderOf(partition)).patterns.push(pattern);
        continue;
      }
      // The node that is asked anyway comes first.
      const last = strict.at(-1)?.address;
      const addresses = liveAddresses(router);
      for (const address of new Set(last && addresses.includes(last) ? [last, ...addresses] : addresses)) {
        stepAt(address).patterns.push(pattern);
      }
    }
  };
  for (const [position, queue] of queues.entries()) {
    addPatterns(position);
    stepAt(holderOf(router.partitionOfQueue(queue))).queues.push(queue);
  }
  addPatterns(queues.length);
  const named = strict.filter((step) => !isOverAllGroups(step)).length;
  if (!request.anyOrder && named <= STRICT_STEPS) return strict;
  const parts = byHolder(router, sources);
  if (overAll.length === 0) return parts;
  const addresses = new Set([...parts.map(({ address }) => address), ...liveAddresses(router)]);
  return [...addresses].map((address) => {
    const part = parts.find((each) => each.address === address) ?? { address, queues: [], patterns: [] };
    return address === undefined ? part : { ...part, patterns: [...part.patterns, ...overAll] };
  });
}

/** Addresses of the nodes that live according to gossip, beginning at a random one. All, if none does. */
function liveAddresses(router: Router): string[] {
  const nodes = router.nodesByHope();
  const live = nodes.filter(({ alive }) => alive);
  return (live.length > 0 ? live : nodes).map(({ address }) => address);
}

const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
