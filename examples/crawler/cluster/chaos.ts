import { setTimeout as delay } from 'node:timers/promises';
import type { ClusterPartitions, Pid, Queue, TaskMasterClient } from '@taskmaster/client';
import { seconds } from '../progress/draw.ts';
import { type CrawlStatus, completedBy, type Observer, openIn } from '../progress/observe.ts';
import { type CrawlQueues, stages } from '../queues.ts';
import type { ChaosEvent, NodeDrained, NodeJoined, NodeKilled, WorkerKilled } from './events.ts';
import { handOffs, holdingsOf, whenSettled } from './placement.ts';
import type { ServerProcess } from './server-process.ts';
import type { Servers } from './servers.ts';
import type { WorkerPool } from './worker-pool.ts';

/** What the planned faults act on. */
export interface ChaosContext {
  readonly client: TaskMasterClient;
  readonly servers: Servers;
  readonly pool: WorkerPool;
  readonly queues: CrawlQueues;
  readonly observer: Observer;
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
}

export type Chaos = (context: ChaosContext, before: readonly ChaosEvent[]) => Promise<ChaosEvent>;

const POLL_MS = 50;

/** Kills, with SIGKILL, the worker that holds the most tasks, and waits until none of them is leased to it any more. */
export async function killWorker({ pool, queues, say, signal }: ChaosContext): Promise<WorkerKilled> {
  const name = busiest(await heldTasks(queues)) ?? pool.workers.find(({ ready }) => ready)?.name ?? 'worker-1';
  const pid = pool.workers.find((worker) => worker.name === name)?.pid;
  const killedAt = performance.now();
  await pool.kill(name);
  // Its leases are still there, with its name on them: the nodes cannot know that it is dead until they end.
  const held = (await heldTasks(queues)).get(name) ?? [];
  say(`kill -9 ${pid}: ${name}, which held ${held.length} leased tasks; another worker takes its place`);
  while (await anyHeld(held)) await delay(POLL_MS, undefined, { signal });
  const recoveredMs = performance.now() - killedAt;
  say(
    `its leases have ended: all ${held.length} tasks were back for other workers ${seconds(recoveredMs)} after the kill`,
  );
  return { kind: 'worker-killed', name, pid, tasksHeld: held.length, recoveredMs };
}

/**
 * Kills the node that holds the most tasks, with SIGKILL. Starts it again with the same data, and waits until the crawl goes
 * on. Meanwhile calls to its partitions wait for it, and the other partitions are served.
 */
export async function killNode(context: ChaosContext): Promise<NodeKilled> {
  const { client, servers, say, signal } = context;
  const node = servers.isCluster
    ? fullest(servers.nodes, await client.cluster.partitions({ signal }))
    : servers.nodes[0];
  if (node === undefined) throw new TypeError('there is no node');
  const { name, pid } = node;
  const killedAt = performance.now();
  await node.kill();
  say(
    `kill -9 ${pid}: ${name}, with ${servers.isCluster ? 'its share of' : 'all'} queues; started again with its data`,
  );
  await node.start(signal);
  const readyMs = performance.now() - killedAt;
  const status = await lookWhen(context, ({ silent }) => silent === 0);
  const completed = completedBy(status);
  say(`${name} serves again after ${seconds(readyMs)}; there are ${openIn(status)} tasks to do in the whole crawl`);
  if (openIn(status) > 0) await lookWhen(context, (next) => next.finished || completedBy(next) > completed);
  const workingMs = performance.now() - killedAt;
  if (!servers.isCluster) {
    const tasksRecovered = openIn(status) + status.found + status.indexed + status.skipped + status.dead;
    return { kind: 'node-killed', name, pid, partitionsHeld: undefined, tasksRecovered, readyMs, workingMs };
  }
  const { partitions, tasks } = holdingsOf(await client.cluster.partitions({ signal }), name);
  return { kind: 'node-killed', name, pid, partitionsHeld: partitions, tasksRecovered: tasks, readyMs, workingMs };
}

/** Starts one more node, and waits until it has its share of the partitions. The crawl goes on while they move. */
export async function joinNode({ client, servers, say, signal }: ChaosContext): Promise<NodeJoined> {
  const before = await client.cluster.partitions({ signal });
  const startedAt = performance.now();
  const node = await servers.addNode(signal);
  const { name, pid } = node;
  const readyMs = performance.now() - startedAt;
  say(`${name} (process ${pid}) joins the cluster: partitions move to it`);
  await whenSettled(client, servers.nodes.length, signal);
  const balancedMs = performance.now() - startedAt - readyMs;
  const after = await client.cluster.partitions({ signal });
  const { partitions: partitionsHeld, tasks: tasksHeld } = holdingsOf(after, name);
  const partitionsMoved = handOffs(before, after);
  say(`${name} has its share after ${seconds(balancedMs)}: ${partitionsHeld} partitions with ${tasksHeld} tasks`);
  return { kind: 'node-joined', name, pid, partitionsHeld, tasksHeld, partitionsMoved, readyMs, balancedMs };
}

/** Drains a node that was not killed before. Its process ends by itself. */
export async function drainNode(context: ChaosContext, earlier: readonly ChaosEvent[]): Promise<NodeDrained> {
  const { client, servers, say, signal } = context;
  const node = servers.running.find(({ name }) => !earlier.some((event) => event.name === name));
  if (node === undefined) throw new TypeError('there is no node to drain');
  const { name, pid } = node;
  const before = await client.cluster.partitions({ signal });
  const { partitions: partitionsHeld, tasks: tasksHeld } = holdingsOf(before, name);
  say(`${name} is drained: its ${partitionsHeld} partitions with ${tasksHeld} tasks move to the other nodes`);
  const startedAt = performance.now();
  const ended = node.end();
  await client.cluster.drain(name, { signal });
  const code = await ended;
  signal.throwIfAborted();
  const drainedMs = performance.now() - startedAt;
  if (code !== 0) throw new Error(`${name} was drained and ended with exit code ${code}`);
  const partitionsMoved = handOffs(before, await client.cluster.partitions({ signal }));
  say(`${name} has left the cluster after ${seconds(drainedMs)}, and its process has ended`);
  return { kind: 'node-drained', name, pid, partitionsHeld, tasksHeld, partitionsMoved, drainedMs };
}

/** Observes the crawl until a condition holds. */
async function lookWhen(
  { observer, signal }: ChaosContext,
  holds: (status: CrawlStatus) => boolean,
): Promise<CrawlStatus> {
  for (;;) {
    const status = await observer.look(signal);
    signal.throwIfAborted();
    if (holds(status)) return status;
    await delay(POLL_MS, undefined, { signal });
  }
}

function fullest(nodes: readonly ServerProcess[], partitions: ClusterPartitions): ServerProcess | undefined {
  const tasks = ({ name }: ServerProcess): number => holdingsOf(partitions, name).tasks;
  return nodes.toSorted((a, b) => tasks(b) - tasks(a))[0];
}

/** A leased task. Its lease token tells this lease from later ones. */
interface HeldTask {
  readonly queue: Queue<unknown>;
  readonly pid: Pid;
  readonly leaseToken: number;
}

/** The leased tasks of all stages, by the name of the worker that has them. */
async function heldTasks(queues: CrawlQueues): Promise<Map<string, HeldTask[]>> {
  const all = stages.flatMap((stage): readonly Queue<unknown>[] => queues.stage(stage));
  const held = await Promise.all(
    all.map(async (queue) => {
      const leased = await queue.peek({ kind: 'leased', limit: 1_000, data: false });
      return leased.map(({ workerLabel: worker = '', pid, leaseToken }) => ({ worker, queue, pid, leaseToken }));
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
    // Each lease of a task has a larger token than the one before, so this is still the lease of the dead worker.
    if (task?.state === 'leased' && task.leaseToken === leaseToken) return true;
  }
  return false;
}
