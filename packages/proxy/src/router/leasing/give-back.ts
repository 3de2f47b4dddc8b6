import { encodeToBuffer, limits, parseQueueName, REFUND, Release } from '@taskmaster/proto';
import { clusterAccess } from '@taskmaster/server/access';
import { RelayedRefusal } from '@taskmaster/server/calls';
import { readLeased, writeField } from '../../upstream/raw-codec.ts';
import { unarySender } from '../../upstream/sender.ts';
import { routerItself } from '../routed-peer.ts';
import type { RoutedCaller, Router } from '../routing/router.ts';

/** Releases are sent in messages of about this size, because PIDs and names can be long. */
const MESSAGE_BYTES = 1024 * 1024;
/** Number of the field `release` of UpdateTasksRequest. */
const RELEASE_FIELD = 4;
/** Maximum number of attempts. A refusal may name only some of the tasks at fault. */
const ROUNDS = 20;

interface EncodedRelease {
  readonly queue: string;
  /** The release as a field of an UpdateTasksRequest. */
  readonly field: Uint8Array;
}

/**
 * Releases leased tasks that no worker receives, and takes their attempts back. Tasks that have changed since are skipped. Does
 * not wait for the result. If a release fails, the task becomes available when its lease ends.
 */
export function giveBack(router: Router, tasks: readonly Uint8Array[]): void {
  const releases = tasks.map((task): EncodedRelease => {
    const { queue, pid, leaseToken } = readLeased(task);
    const item = encodeToBuffer(Release, { queue, pid, leaseToken, ...REFUND });
    return { queue, field: writeField(RELEASE_FIELD, item) };
  });
  for (const [, ofGroup] of Map.groupBy(releases, ({ queue }) => parseQueueName(queue).group)) {
    for (const chunk of chunksOf(ofGroup)) {
      release(router, chunk).catch((err: unknown) => {
        router.log.debug({ err }, 'leased tasks could not be released');
      });
    }
  }
}

async function release(router: Router, given: readonly EncodedRelease[]): Promise<void> {
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
    const bytes = Buffer.concat(left.map(({ field }) => field));
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

function chunksOf(releases: readonly EncodedRelease[]): EncodedRelease[][] {
  const chunks: EncodedRelease[][] = [];
  let chunk: EncodedRelease[] = [];
  let bytes = 0;
  for (const item of releases) {
    const more = item.field.length;
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
