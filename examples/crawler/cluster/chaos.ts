import { setTimeout as delay } from 'node:timers/promises';
import type { Pid, Queue } from '@taskmaster/client';
import { type CrawlStatus, completedBy, type Observer, openIn } from '../progress/observe.ts';
import { type CrawlQueues, stages } from '../queues.ts';
import type { NodeProcess } from './node-process.ts';
import type { WorkerPool } from './worker-pool.ts';

export interface WorkerKill {
  readonly kind: 'worker';
  readonly name: string;
  readonly pid: number | undefined;
  /** Tasks that it had leased when it died. */
  readonly tasksHeld: number;
  /** From the kill until the last of those was back in its queue, or in another worker's hands. */
  readonly recoveredMs: number;
}

export interface NodeKill {
  readonly kind: 'node';
  readonly pid: number | undefined;
  /** Tasks in its queues when it was back: what it has recovered. */
  readonly tasksRecovered: number;
  /** From the kill until it served again. */
  readonly readyMs: number;
  /** From the kill until a task was completed again. */
  readonly workingMs: number;
}

export type Kill = WorkerKill | NodeKill;

export interface Victims {
  readonly pool: WorkerPool;
  readonly node: NodeProcess;
  readonly queues: CrawlQueues;
  readonly observer: Observer;
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
}

const POLL_MS = 50;

/** A leased task, as far as its successor's lease is told from its own. */
interface HeldTask {
  readonly queue: Queue<unknown>;
  readonly pid: Pid;
  readonly leaseToken: number;
}

/** Kills, with SIGKILL, the worker that holds the most tasks, and waits until none of them is leased to it any more. */
export async function killWorker(victims: Victims): Promise<WorkerKill> {
  const { pool, queues, say, signal } = victims;
  const name = busiest(await heldTasks(queues)) ?? pool.workers.find(({ ready }) => ready)?.name ?? 'worker-1';
  const pid = pool.workers.find((worker) => worker.name === name)?.pid;
  const killedAt = performance.now();
  await pool.kill(name);
  // Its leases are still there, with its name on them: the node cannot know that it is dead until they end.
  const held = (await heldTasks(queues)).get(name) ?? [];
  say(`kill -9 ${pid}: ${name}, which held ${held.length} leased tasks; another worker takes its place`);
  while (await anyHeld(held)) await delay(POLL_MS, undefined, { signal });
  const recoveredMs = performance.now() - killedAt;
  say(
    `its leases have ended: all ${held.length} tasks were back for other workers ${Math.round(recoveredMs)} ms after the kill`,
  );
  return { kind: 'worker', name, pid, tasksHeld: held.length, recoveredMs };
}

/** Kills the node with SIGKILL, starts it again with the same data, and waits until the crawl goes on. */
export async function killNode(victims: Victims): Promise<NodeKill> {
  const { node, say } = victims;
  const { pid } = node;
  const killedAt = performance.now();
  await node.kill();
  say(`kill -9 ${pid}: the node, with all queues; started again with the same data`);
  await node.restart();
  const readyMs = performance.now() - killedAt;
  const status = await lookWhen(victims, ({ silent }) => silent === 0);
  const { found, indexed } = status;
  const completed = completedBy(status);
  const open = openIn(status);
  say(
    `the node serves again after ${Math.round(readyMs)} ms, with ${open} tasks to do, ${found} URLs seen and ${indexed} indexed`,
  );
  if (open > 0) await lookWhen(victims, (next) => completedBy(next) > completed);
  return { kind: 'node', pid, tasksRecovered: open, readyMs, workingMs: performance.now() - killedAt };
}

/** Looks at the crawl until a condition holds. */
async function lookWhen({ observer, signal }: Victims, holds: (status: CrawlStatus) => boolean): Promise<CrawlStatus> {
  for (;;) {
    const status = await observer.look(signal);
    signal.throwIfAborted();
    if (holds(status)) return status;
    await delay(POLL_MS, undefined, { signal });
  }
}

/** The leased tasks of all stages, by the name of the worker that has them. */
async function heldTasks(queues: CrawlQueues): Promise<Map<string, HeldTask[]>> {
  const all: readonly Queue<unknown>[] = stages.flatMap((stage): readonly Queue<unknown>[] => queues.stage(stage));
  const held = await Promise.all(
    all.map(async (queue) => {
      const leased = await queue.peek({ kind: 'leased', limit: 1_000, data: false });
      return leased.map(({ worker = '', pid, leaseToken }) => ({ worker, queue, pid, leaseToken }));
    }),
  );
  return Map.groupBy(held.flat(), ({ worker }) => worker);
}

function busiest(held: ReadonlyMap<string, readonly HeldTask[]>): string | undefined {
  return [...held].sort(([, a], [, b]) => b.length - a.length)[0]?.[0];
}

async function anyHeld(held: readonly HeldTask[]): Promise<boolean> {
  for (const { queue, pid, leaseToken } of held) {
    const [task] = await queue.get([pid], { data: false });
    // Every lease of a task has a larger token than those before, so the same token is the dead worker's.
    if (task?.state === 'leased' && task.leaseToken === leaseToken) return true;
  }
  return false;
}
