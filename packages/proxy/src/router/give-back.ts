import { encodeToBuffer, limits, parseQueueName, type Release, UpdateTasksRequest } from '@taskmaster/proto';
import { RelayedRefusal } from '@taskmaster/server/service';
import { readLeased } from '../upstream/raw-codec.ts';
import { unarySender } from '../upstream/sender.ts';
import type { RoutedCaller, Router } from './router.ts';

/** PIDs of 4 KiB and long names: releases are sent in messages of about this size. */
const MESSAGE_BYTES = 1024 * 1024;
/** A refusal may name only some of the tasks at fault; after so many nobody goes on. */
const ROUNDS = 20;

/**
 * Releases tasks that nobody will work on, as if they had never been leased. Those that somebody else changed meanwhile
 * are left to that. Does not wait for it, and where it fails the leases end by themselves: the tasks are only late.
 */
export function giveBack(router: Router, tasks: readonly Uint8Array[]): void {
  const releases = tasks.map((task): Release => {
    const { queue, pid, leaseToken } = readLeased(task);
    return { queue, pid, leaseToken, delayMs: 0, refundAttempt: true };
  });
  for (const [, ofGroup] of Map.groupBy(releases, ({ queue }) => parseQueueName(queue).group)) {
    for (const chunk of chunksOf(ofGroup)) {
      release(router, chunk).catch((err: unknown) => {
        router.log.debug({ err }, 'leases that nobody got could not be given back');
      });
    }
  }
}

async function release(router: Router, given: readonly Release[]): Promise<void> {
  const [first] = given;
  if (first === undefined) return;
  const caller: RoutedCaller = {
    sender: unarySender(router.upstream, 'proxy'),
    gone: false,
    signal: undefined,
    until: undefined,
  };
  const partition = router.partitionOfQueue(first.queue);
  let left = given;
  for (let round = 0; round < ROUNDS && left.length > 0; round++) {
    const update = { enqueue: [], dequeue: [], renew: [], release: [...left], requestId: new Uint8Array(0) };
    const bytes = encodeToBuffer(UpdateTasksRequest, update);
    const atFault = await router
      // Tokens tell a release that comes twice.
      .toHolder(partition, { method: 'UpdateTasks', request: () => bytes, repetition: 'harmless' }, caller)
      .then(
        () => undefined,
        (thrown: unknown) => faultsIn(thrown),
      );
    if (atFault === undefined) return;
    left = left.filter((_item, index) => !atFault.has(index));
  }
}

/** The items that kept an update from being applied. */
function faultsIn(thrown: unknown): ReadonlySet<number> {
  if (!(thrown instanceof RelayedRefusal) || thrown.error.items.length === 0) throw thrown;
  return new Set(thrown.error.items.map(({ index }) => index));
}

function chunksOf(releases: readonly Release[]): Release[][] {
  const chunks: Release[][] = [];
  let chunk: Release[] = [];
  let bytes = 0;
  for (const item of releases) {
    const more = item.pid.length + item.queue.length * 3 + 32;
    if (chunk.length > 0 && (bytes + more > MESSAGE_BYTES || chunk.length >= limits.updateItems)) {
      chunks.push(chunk);
      chunk = [];
      bytes = 0;
    }
    chunk.push(item);
    bytes += more;
  }
  if (chunk.length > 0) chunks.push(chunk);
  return chunks;
}
