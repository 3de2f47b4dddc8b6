import { encodeToBuffer, limits, parseQueueName, REFUND, type Release, UpdateTasksRequest } from '@taskmaster/proto';
import { clusterAccess } from '@taskmaster/server/access';
import { RelayedRefusal } from '@taskmaster/server/calls';
import { readLeased } from '../../upstream/raw-codec.ts';
import { unarySender } from '../../upstream/sender.ts';
import { routerItself } from '../routed-peer.ts';
import type { RoutedCaller, Router } from '../routing/router.ts';

/** Releases are sent in messages of about this size, because PIDs and names can be long. */
const MESSAGE_BYTES = 1024 * 1024;
/** Maximum number of attempts. A refusal may name only some of the tasks at fault. */
const ROUNDS = 20;

/**
 * Releases leased tasks that no worker receives, and takes their attempts back. Tasks that have changed since are skipped. Does
 * not wait for the result. If a release fails, the task becomes available when its lease ends.
 */
export function giveBack(router: Router, tasks: readonly Uint8Array[]): void {
  const releases = tasks.map((task): Release => {
    const { queue, pid, leaseToken } = readLeased(task);
    return { queue, pid, leaseToken, ...REFUND };
  });
  for (const [, ofGroup] of Map.groupBy(releases, ({ queue }) => parseQueueName(queue).group)) {
    for (const chunk of chunksOf(ofGroup)) {
      release(router, chunk).catch((err: unknown) => {
        router.log.debug({ err }, 'leased tasks could not be released');
      });
    }
  }
}

async function release(router: Router, given: readonly Release[]): Promise<void> {
  const [first] = given;
  if (first === undefined) return;
  const caller: RoutedCaller = {
    sender: unarySender(router.upstream, routerItself),
    access: clusterAccess,
    gone: false,
    signal: undefined,
    until: undefined,
  };
  const partition = router.partitionOfQueue(first.queue);
  let left = given;
  for (let round = 0; round < ROUNDS && left.length > 0; round++) {
    const update = { enqueue: [], dequeue: [], renew: [], release: [...left], requestId: new Uint8Array(0), parts: [] };
    const bytes = encodeToBuffer(UpdateTasksRequest, update);
    const atFault = await router
      // A second release of the same task has no effect, because its lease token is no longer valid.
      .toHolder(partition, { method: 'UpdateTasks', request: () => bytes, repetition: 'harmless' }, caller)
      .then(
        () => undefined,
        (thrown: unknown) => faultsIn(thrown),
      );
    if (atFault === undefined) return;
    left = left.filter((_item, index) => !atFault.has(index));
  }
}

/** The indices of the items for which an update was refused. Throws other errors again. */
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
