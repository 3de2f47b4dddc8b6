import { isDeepStrictEqual } from 'node:util';
import type { CountsReply } from '@taskmaster/cli/testing/history';
import type { TaskView } from '@taskmaster/engine/domain';
import type { EngineHarness } from '@taskmaster/engine/testing';
import { formatQueueName, type QueueName, reservedQueues } from '@taskmaster/proto';
import { expect } from 'vitest';
import { diskFaults } from '../model/disk-faults.ts';

/** The state of one queue as callers see it. */
export interface SeenQueue extends CountsReply {
  readonly tasks: readonly string[];
}

const EVERYTHING = {
  matches: undefined,
  group: undefined,
  minAvailable: undefined,
  maxAvailable: undefined,
  minLeased: undefined,
  maxLeased: undefined,
  minDelayed: undefined,
  maxDelayed: undefined,
};

const LIMIT = 100_000;

/** The queues that hold tasks, with their counts. */
export async function countsOf(h: EngineHarness): Promise<CountsReply[]> {
  const { queues } = await h.engine.listQueues({ filter: EVERYTHING, limit: LIMIT, after: undefined });
  return queues.map(({ queue, available, leased, delayed, completed }) => ({
    queue: formatQueueName(queue),
    available,
    leased,
    delayed,
    completed,
  }));
}

/** The groups of the tests that look at the rows of a disk. */
const GROUPS = ['crawl', 'g', ''];

/** The numbers of ends that tasks have left, and of keys, which callers do not see. Dead letters leave ends, too. */
async function recordsOf(h: EngineHarness): Promise<CountsReply[]> {
  const queues = GROUPS.flatMap((group) =>
    [reservedQueues.results, reservedQueues.keys].map((name) => ({ group, name })),
  );
  const { queues: found } = await h.engine.queueStats({ kind: 'named', queues });
  return found
    .filter(({ available, delayed }) => available + delayed > 0)
    .map(({ queue, available, leased, delayed, completed }) => ({
      queue: formatQueueName(queue),
      available,
      leased,
      delayed,
      completed,
    }));
}

/** The state of all queues as callers see it: one line for each task, with its data and its lease. */
export async function observe(h: EngineHarness): Promise<SeenQueue[]> {
  const seen: SeenQueue[] = [];
  for (const counts of await countsOf(h)) {
    const [group = '', name] = counts.queue.includes('#') ? counts.queue.split('#') : ['', counts.queue];
    const queue: QueueName = { group, name: name ?? '' };
    const tasks: string[] = [];
    for (const kind of ['head', 'leased', 'delayed'] as const) {
      const views = await h.engine.peekTasks({ queue, kind, limit: LIMIT, includeData: true });
      tasks.push(...views.map((task) => `${kind} ${showTask(task)}`).sort());
    }
    seen.push({ ...counts, tasks });
  }
  return seen;
}

function showTask({ pid, state, data }: TaskView): string {
  const until = state?.visibility.kind === 'hidden' ? state.visibility.until : '';
  const text = Buffer.from(data ?? '').toString();
  return `${pid} ${until} attempts=${state?.attempts} token=${state?.token} at=${state?.enqueuedAt} ${text}`;
}

/** Longer than the time between two checkpoints. A checkpoint writes the rows of tasks. */
const CHECKPOINTED_MS = 1000;
const MOST_ROUNDS = 10;

/** After all work has ended, the rows on the disk must be consistent and match the counts. */
export async function expectSoundDisk(h: EngineHarness): Promise<void> {
  for (let rounds = 0; rounds < MOST_ROUNDS; rounds++) {
    const countAll = async (): Promise<CountsReply[]> => [
      ...(await h.clock.run(countsOf(h))),
      ...(await h.clock.run(recordsOf(h))),
    ];
    const counts = await countAll();
    await h.clock.advance(CHECKPOINTED_MS);
    const faults = diskFaults(h.disk, counts);
    // A lease or delay may have ended meanwhile. The next round counts its task.
    if (!isDeepStrictEqual(await countAll(), counts)) continue;
    expect(faults).toEqual([]);
    return;
  }
  throw new Error('the queues do not come to rest');
}

/** The state must be one of the allowed ones. A failure shows the difference to the last of them. */
export function expectOneOf(seen: readonly SeenQueue[], allowed: readonly (readonly SeenQueue[])[], why: string): void {
  if (allowed.some((state) => isDeepStrictEqual(state, seen))) return;
  expect(seen, why).toEqual(allowed.at(-1));
}
