import { setTimeout as sleep } from 'node:timers/promises';
import {
  bytesCodec,
  isTaskMasterError,
  type QueueEvent,
  type QueueStats,
  type TaskInfo,
  type TaskMasterClient,
} from '@taskmaster/client';
import { parseQueueName } from '@taskmaster/proto';
import { isTemporary } from '../../views/report-error.ts';

/** Time between two looks for new groups, in ms. */
const LOOK_MS = 300;
/** Timeout of one look, in ms. */
const LOOK_WITHIN_MS = 2_000;
/** Groups that are followed at most: each has a read of its own. */
export const MOST_GROUPS = 200;
/** Queues of a group, and tasks of each kind of a queue, that are read when events may be missing. */
const MOST_QUEUES = 100;
const MOST_TASKS = 20;

export interface Followed {
  /** Something has happened. The next event of its group waits until this resolves. */
  readonly onEvent: (event: QueueEvent) => Promise<void>;
  /** Tasks that are there, of which there may have been no events. */
  readonly onTask: (task: TaskInfo<Uint8Array>) => void;
  /** The queues that hold tasks, now and then. `left`: groups that are not followed, because there are too many. */
  readonly onQueues: (queues: readonly QueueStats[], left: number) => void;
  /** Why no queues could be read. Undefined: they could be read again. */
  readonly onProblem: (problem: string | undefined) => void;
}

/**
 * Follows the events of all groups of a node, also of those that come later, until the signal. Rejects with `CancelledError`
 * then, and with the error of a refusal.
 */
export async function followAll(client: TaskMasterClient, followed: Followed, signal: AbortSignal): Promise<never> {
  const groups = new Set<string>();
  const broken = Promise.withResolvers<never>();
  // It is awaited later than it may reject.
  broken.promise.catch(() => {});
  const follow = (group: string): void => {
    if (groups.has(group) || groups.size === MOST_GROUPS) return;
    groups.add(group);
    followGroup(client, group, followed, signal).catch(broken.reject);
  };
  // A task of the default group is seen at once.
  follow('');
  let isReachable = true;
  for (;;) {
    try {
      const queues: QueueStats[] = [];
      for await (const queue of client.listQueues({ signal, timeout: LOOK_WITHIN_MS })) queues.push(queue);
      const named = new Set(queues.map(({ queue }) => parseQueueName(queue).group));
      for (const group of named) follow(group);
      followed.onQueues(queues, [...named].filter((group) => !groups.has(group)).length);
      if (!isReachable) followed.onProblem(undefined);
      isReachable = true;
    } catch (error) {
      if (signal.aborted || !isTaskMasterError(error) || !isTemporary(error)) throw error;
      if (isReachable) followed.onProblem(error.message);
      isReachable = false;
    }
    await Promise.race([sleep(LOOK_MS, undefined, { signal }), broken.promise]);
  }
}

async function followGroup(
  client: TaskMasterClient,
  group: string,
  { onEvent, onTask }: Followed,
  signal: AbortSignal,
): Promise<void> {
  const queues = group === '' ? '*' : `${group}#*`;
  for await (const event of client.events(queues, { after: 'oldest', signal })) {
    if (event.kind === 'missed') for await (const task of tasksOf(client, group, signal)) onTask(task);
    else await onEvent(event);
  }
}

/** Some tasks of each queue of a group. */
async function* tasksOf(
  client: TaskMasterClient,
  group: string,
  signal: AbortSignal,
): AsyncGenerator<TaskInfo<Uint8Array>, void> {
  let left = MOST_QUEUES;
  for await (const { queue: name } of client.listQueues({ filter: { group }, signal })) {
    if (left-- === 0) return;
    const queue = client.queue(name, { codec: bytesCodec });
    for (const kind of ['head', 'delayed', 'waiting', 'leased'] as const) {
      yield* await queue.peek({ kind, limit: MOST_TASKS, signal });
    }
  }
}
