import type { SimCluster } from '@taskmaster/node/testing';
import {
  encodeToBuffer,
  type LeasedTask,
  LeaseTasksRequest,
  LeaseTasksResponse,
  limits,
  parseQueueName,
  partitionOf,
  UpdateTasksRequest,
} from '@taskmaster/proto';
import { OperatorCalls, type OperatorCallsDeps } from './operator-calls.ts';

/** Groups of their own: no other call is about their queues. */
const GROUPS = ['y0', 'y1', 'y2'] as const;
/** No worker runs the last one. Each of them has as many tasks, and so have those without a kind. */
const KINDS = ['a@1', 'a@2', 'b', 'lost'] as const;
const LOST = 'lost';
const TASKS = 12;
const WORKERS: readonly (readonly string[])[] = [['a@1'], ['a@*'], ['b', ''], ['', 'a@1', 'none']];
/** Expires during the faults. */
const LEASE_MS = 1_500;
const WAIT_MS = 400;
const REST_MS = 150;
/** Longer than the rest of the work takes when there are no faults. */
const MOST_ROUNDS = 100;
const ROUND_MS = 500;

const QUEUES = GROUPS.map((group) => `${group}#jobs`);

/** Programs that share queues and run different kinds of tasks, through any node and proxy, during the faults. */
export class WorkersByKind {
  readonly #cluster: SimCluster;
  readonly #deps: OperatorCallsDeps;
  readonly #calls: OperatorCalls;
  readonly #wrong: { readonly group: string; readonly problem: string }[] = [];
  #working: Promise<unknown> | undefined;
  #stopping = false;

  constructor(cluster: SimCluster, deps: OperatorCallsDeps) {
    this.#cluster = cluster;
    this.#deps = deps;
    this.#calls = new OperatorCalls(deps);
  }

  /** Call it before the first fault. */
  async start(): Promise<void> {
    for (const queue of QUEUES) {
      const tasks = ['', ...KINDS].flatMap((kind) =>
        Array.from({ length: TASKS }, (_, at) => ({
          queue,
          pid: `${at}-${kind}`,
          ...(kind !== '' && { kind }),
          ...(at % 2 === 0 && { limitKey: `k${at % 3}` }),
        })),
      );
      await this.#cluster.run(this.#holderOf(queue).update({ enqueue: tasks }));
    }
    this.#working = Promise.all(WORKERS.map((kinds) => this.#work(kinds)));
    // `stop` reports its rejection.
    this.#working.catch(() => {});
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#working;
  }

  /**
   * (o) No worker gets a kind that it cannot run, all other tasks are done, and those of the kind that none can run are there and
   * counted. In a settled cluster.
   * @param givenUp partitions that were lost, or are older copies
   * @param isPatient whether to wait until those tasks count as unclaimed
   */
  async violations(givenUp: ReadonlySet<number>, isPatient: boolean): Promise<string[]> {
    const cluster = this.#cluster;
    const isKept = (group: string): boolean => !givenUp.has(partitionOf(group, cluster.partitions));
    const kept = QUEUES.filter((queue) => isKept(parseQueueName(queue).group));
    for (let round = 0; round < MOST_ROUNDS; round++) {
      for (const kinds of WORKERS) await cluster.run(this.#once(kinds, 0));
      const left = await cluster.run(Promise.all(kept.map((queue) => this.#kindsOf(queue))));
      if (left.every(({ size }) => size === TASKS)) break;
      await cluster.pass(ROUND_MS);
    }
    const unclaimed = isPatient ? TASKS : undefined;
    if (isPatient) await cluster.pass(limits.unclaimedMs);
    const counts: string[] = [];
    for (const queue of kept) {
      const { size, kinds } = await cluster.run(this.#kindsOf(queue));
      const lost = kinds?.most.find(({ kind }) => kind === LOST);
      if (size === TASKS && lost?.available === TASKS && kinds?.unclaimed === (unclaimed ?? kinds?.unclaimed)) continue;
      const left = `${lost?.available} of ${LOST}, and ${kinds?.unclaimed} are unclaimed`;
      counts.push(`(o) ${queue} has ${size} tasks, ${left}, not ${TASKS} each`);
    }
    const wrong = this.#wrong.filter(({ group }) => isKept(group));
    return [...counts, ...wrong.map(({ group, problem }) => `(o) in ${group}: ${problem}`)];
  }

  async #work(kinds: readonly string[]): Promise<void> {
    while (!this.#stopping) {
      await this.#once(kinds, WAIT_MS);
      await this.#deps.sleep(REST_MS);
    }
  }

  /** Leases some tasks and completes them. Those whose answers are lost come again when their leases end. */
  async #once(kinds: readonly string[], waitMs: number): Promise<void> {
    const request = {
      queues: [...QUEUES],
      maxTasks: 3,
      leaseDurationMs: LEASE_MS,
      maxPid: new Uint8Array(0),
      waitMs,
      workerLabel: kinds.join(),
      maxBytes: 0,
      anyOrder: true,
      patterns: [],
      maxMoreQueues: 0,
      kinds: { patterns: [...kinds] },
    };
    const reply = await this.#calls.once('LeaseTasks', encodeToBuffer(LeaseTasksRequest, request));
    for (const task of reply === undefined ? [] : LeaseTasksResponse.decode(reply).tasks) {
      this.#check(kinds, task);
      const dequeue = [{ queue: task.queue, pid: task.pid, leaseToken: task.leaseToken, requeue: false }];
      const empty = { enqueue: [], renew: [], release: [], parts: [], requestId: new Uint8Array(0) };
      await this.#calls.once('UpdateTasks', encodeToBuffer(UpdateTasksRequest, { ...empty, dequeue }));
    }
  }

  #check(kinds: readonly string[], { queue, pid, kind = '' }: LeasedTask): void {
    const name = Buffer.from(pid).toString('latin1');
    const { group } = parseQueueName(queue);
    if (!name.endsWith(`-${kind}`)) this.#wrong.push({ group, problem: `${name} came with the kind "${kind}"` });
    const isAccepted = kinds.some((one) => one === kind || (one === 'a@*' && kind.startsWith('a@')));
    if (!isAccepted) this.#wrong.push({ group, problem: `${name} was leased by a worker for ${kinds}` });
  }

  async #kindsOf(queue: string) {
    const { queues } = await this.#holderOf(queue).engine.queueStats({
      kind: 'named',
      queues: [parseQueueName(queue)],
    });
    const { available = 0, leased = 0, delayed = 0, kinds } = queues[0] ?? {};
    return { size: available + leased + delayed, kinds };
  }

  #holderOf(queue: string) {
    const holder = this.#cluster.holderOf(parseQueueName(queue).group);
    if (!holder) throw new Error(`no node holds ${queue}`);
    return holder.h;
  }
}
