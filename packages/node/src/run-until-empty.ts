import { type Duration, durationMs, TaskMasterClient, type Worker, WorkerGroup } from '@taskmaster/client';
import { assertKnown, CONTEXT, type OptionNames, QUEUES } from '@taskmaster/client/internal';
import type { TestClock } from './open-memory.ts';

export interface RunUntilEmptyOptions {
  /**
   * The clock of the queue: it is advanced to the end of each delay, backoff and lease, until the queues are empty. Default: time
   * is left alone, so a task that is delayed is an error.
   */
  readonly clock?: TestClock | undefined;
  /** How far the clock may be advanced. Default 30 days. */
  readonly within?: Duration | undefined;
}

/** What a worker did. */
export interface RunUntilEmptyOutcome {
  /** Calls of the handler that have ended without an error. */
  readonly handled: number;
  /** What the other calls have thrown, in order. */
  readonly errors: readonly unknown[];
}

type AnyWorker<T, Given> = Worker<T, Given> | WorkerGroup<T, Given>;

const names: OptionNames<RunUntilEmptyOptions> = { clock: true, within: true };

/** What is recorded of each worker, for as long as it lives. */
const records = new WeakMap<object, { handled: number; errors: unknown[] }>();

/**
 * Runs a worker, or those of `client.workers`, until its queues hold no task, and stops it, unless it was running before. With
 * the clock of the queue it travels through delays and backoffs, so that each task is completed or in its dead-letter queue.
 * @throws Error if tasks are left, such as failed ones that come back later: its cause is what the handler threw first. TypeError
 * for wrong options.
 */
export async function runUntilEmpty<T, Given>(
  worker: AnyWorker<T, Given>,
  options: RunUntilEmptyOptions = {},
): Promise<RunUntilEmptyOutcome> {
  assertKnown('runUntilEmpty', options, names);
  const { clock } = options;
  const workers = worker instanceof WorkerGroup ? worker.workers : [worker];
  const until = (clock?.now().getTime() ?? 0) + durationMs(options.within ?? '30d', 'within');
  const record = recordOf(worker);
  const wasRunning = workers.some(({ isRunning }) => isRunning);
  if (!wasRunning) worker.start();
  const passing = <R>(work: Promise<R>): Promise<R> => (clock === undefined ? work : clock.run(work));
  try {
    for (;;) {
      await passing(worker.untilIdle());
      const left = await Promise.all(workers.map(leftIn));
      if (left.every(({ tasks }) => tasks.length === 0)) return { ...record };
      const next = Math.min(...left.map(({ nextAt }) => nextAt));
      if (clock === undefined || next > until || next === Number.POSITIVE_INFINITY) throw notEmpty(left, record.errors);
      // A lease request that waits would bring a lease that counts from before the jump.
      await worker.pause();
      await clock.jump(Math.max(0, next - clock.now().getTime()));
      worker.resume();
    }
  } finally {
    if (!wasRunning) await passing(worker.stop());
  }
}

function recordOf<T, Given>(worker: AnyWorker<T, Given>): { handled: number; errors: unknown[] } {
  let record = records.get(worker);
  if (record === undefined) {
    const made = { handled: 0, errors: [] as unknown[] };
    records.set(worker, made);
    worker.use(async (_task, next) => {
      try {
        await next();
        made.handled++;
      } catch (error) {
        made.errors.push(error);
        throw error;
      }
    });
    record = made;
  }
  record.handled = 0;
  record.errors = [];
  return record;
}

interface Left {
  /** Queues with tasks, in words. */
  readonly tasks: readonly string[];
  /** When the first task becomes available that is hidden, in ms since 1970. Infinity: none does by itself. */
  readonly nextAt: number;
}

async function leftIn<T, Given>(worker: Worker<T, Given>): Promise<Left> {
  const client = new TaskMasterClient(worker[CONTEXT]);
  const { queues = [], patterns = [] } = await worker[QUEUES]();
  const byName = await client.stats({ queues: queues.map(({ name }) => name) });
  const byPattern = await Promise.all(
    patterns.map(({ regex, group }) => client.stats({ filter: { ...(regex && { regex }), group } })),
  );
  const stats = [byName, ...byPattern].flatMap((report) => report.queues);
  const full = stats.filter(({ available, leased, delayed, waiting }) => available + leased + delayed + waiting > 0);
  const shown = full.map(({ queue, available, leased, delayed, waiting }) => {
    const counts = Object.entries({ available, leased, delayed, waiting }).filter(([, count]) => count > 0);
    return `${queue} (${counts.map(([state, count]) => `${count} ${state}`).join(', ')})`;
  });
  const hidden = await Promise.all(
    full.flatMap((counts) =>
      (['delayed', 'leased', 'waiting'] as const)
        .filter((kind) => counts[kind] > 0)
        .map((kind) => client.queue(counts.queue).peek({ kind, limit: 1, data: false })),
    ),
  );
  const instants = hidden.flat().map(({ hiddenUntil }) => hiddenUntil?.getTime() ?? Number.POSITIVE_INFINITY);
  return { tasks: shown, nextAt: Math.min(...instants, Number.POSITIVE_INFINITY) };
}

function notEmpty(left: readonly Left[], errors: readonly unknown[]): Error {
  const [cause] = errors;
  return new Error(
    `tasks are left: ${left.flatMap(({ tasks }) => tasks).join('; ')}`,
    cause === undefined ? {} : { cause },
  );
}
