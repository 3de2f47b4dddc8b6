import type { LeasedTask } from '@taskmaster/engine/domain';
import type { EngineHarness, SeededRandom } from '@taskmaster/engine/testing';
import type { SimCluster } from '@taskmaster/node/testing';
import { EnqueueMode } from '@taskmaster/proto';
import { OwnGroups } from './own-groups.ts';

/** Groups of their own: no other call is about their queues. */
const GROUPS = ['y0', 'y1', 'y2'] as const;
const TASKS = 12;
const MOST_SIGNALS = 3;
/** Of the tasks with a timeout. It ends during the faults or shortly after. */
const TIMEOUT_MS = 2_500;
const LEASE_MS = 1_500;
/** The clocks of nodes approach the system clock by at most a thousandth. */
const CLOCK_RATE = 1.001;

/** A task that waits for signals, as its callers know it. */
interface Parked {
  readonly pid: string;
  readonly ids: readonly string[];
  /** Undefined: it waits for its signals as long as it takes. */
  readonly action: 'run' | 'cancel' | undefined;
  /** When it was enqueued at the earliest. */
  enqueuedAt: number | undefined;
  isEnqueued: boolean;
  /** Ids of signals that the node has confirmed, also before the task came, and when it had at the latest. */
  readonly confirmed: Map<string, number>;
  hasRun: boolean;
}

const parked = (at: number): Parked => ({
  pid: `t${at}`,
  ids: Array.from({ length: 1 + (at % MOST_SIGNALS) }, (_, id) => `s${id}`),
  action: at % 4 === 0 ? 'run' : at % 4 === 1 ? 'cancel' : undefined,
  enqueuedAt: undefined,
  isEnqueued: false,
  confirmed: new Map(),
  hasRun: false,
});

/**
 * Tasks that wait for signals, which come before and after them and more than once, during the faults.
 *
 * (q) A task is leased when all of its signals have come, and has each of them once; or, if its timeout says so, when this has
 * ended, and then it has those that were confirmed before. In the end no task waits for a signal that was confirmed.
 */
export class ParkedTasks {
  readonly #groups: OwnGroups;
  readonly #random: SeededRandom;
  readonly #tasks = new Map<string, readonly Parked[]>(
    GROUPS.map((group) => [group, Array.from({ length: TASKS }, (_, at) => parked(at))]),
  );

  constructor(cluster: SimCluster, random: SeededRandom) {
    this.#groups = new OwnGroups(cluster, GROUPS);
    this.#random = random;
  }

  /** Works where the groups are held. */
  step(): void {
    this.#groups.step((group, h) => this.#act(group, h));
  }

  /** Violations in a settled cluster. `givenUp`: partitions that were lost, or are older copies. */
  violations(givenUp: ReadonlySet<number>): Promise<string[]> {
    return this.#groups.violations('q', givenUp, (group) => this.#finish(group));
  }

  async #act(group: string, h: EngineHarness): Promise<void> {
    const task = this.#random.pick(this.#tasks.get(group) ?? []);
    if (!task.isEnqueued && this.#random.chance(0.6)) await this.#enqueue(group, h, task);
    for (let more = this.#random.int(3); more > 0; more--) {
      await this.#signal(group, h, this.#random.pick(this.#tasks.get(group) ?? []));
    }
    await this.#work(group, h, true);
  }

  async #enqueue(group: string, h: EngineHarness, task: Parked): Promise<void> {
    const { pid, ids, action } = task;
    task.enqueuedAt ??= this.#groups.cluster.time.now();
    const timeout = action && { timeoutMs: TIMEOUT_MS, action };
    const waitFor = { signals: ids.length, collect: true, ...timeout };
    // A repeated request adds no task that has run.
    await h.update({ enqueue: [{ queue: `${group}#parked`, pid, waitFor }], id: `enqueue ${group} ${pid}` });
    task.isEnqueued = true;
  }

  async #signal(group: string, h: EngineHarness, task: Parked, id = this.#random.pick(task.ids)): Promise<void> {
    const signal = { pid: task.pid, signalId: id, data: `${task.pid} ${id}` };
    await h.update({
      enqueue: [{ queue: `${group}#parked`, mode: EnqueueMode.ENQUEUE_MODE_SIGNAL, ...signal }],
    });
    if (!task.confirmed.has(id)) task.confirmed.set(id, this.#groups.cluster.time.now());
  }

  async #work(group: string, h: EngineHarness, mayFail: boolean): Promise<void> {
    const tasks = this.#tasks.get(group) ?? [];
    const leased = await h.lease(`${group}#parked`, { max: 4, for: LEASE_MS, includeSignals: true });
    for (const one of leased) {
      const task = tasks.find(({ pid }) => pid === one.pid);
      if (task === undefined) continue;
      task.hasRun = true;
      this.#check(group, task, one);
      if (mayFail && this.#random.chance(0.3)) continue;
      const item = { queue: `${group}#parked`, pid: one.pid, token: one.token };
      const isReleased = mayFail && this.#random.chance(0.2);
      await h.update(isReleased ? { release: [item] } : { dequeue: [item] });
    }
  }

  #check(group: string, task: Parked, { signals }: LeasedTask): void {
    const kept = signals?.kind === 'all' ? signals.box.kept : [];
    const heard = kept.map(({ id }) => id).sort();
    const told = `${task.pid} has heard of ${heard.join(', ') || 'nothing'}`;
    for (const { id, data } of kept) {
      if (Buffer.from(data).toString() !== `${task.pid} ${id}`)
        this.#groups.report(group, `${told}: ${id} has other data`);
    }
    if (heard.join() === task.ids.join()) return;
    const endsAt = (task.enqueuedAt ?? 0) + TIMEOUT_MS / CLOCK_RATE;
    if (task.action !== 'run' || this.#groups.cluster.time.now() < endsAt) {
      this.#groups.report(group, `${told} and was leased before it had heard of ${task.ids.join(', ')}`);
    } else if (new Set(heard).size < heard.length || !heard.every((id) => task.ids.includes(id))) {
      this.#groups.report(group, `${told} at the end of its timeout`);
    }
    // Those that come behind the end of the timeout do not count.
    const missing = [...task.confirmed].filter(([id, at]) => at < endsAt && !heard.includes(id)).map(([id]) => id);
    if (missing.length > 0) this.#groups.report(group, `${told}, and ${missing.join(', ')} had come`);
  }

  /** Sends what is missing. Then every task has an end. */
  async #finish(group: string): Promise<void> {
    const { cluster } = this.#groups;
    const tasks = this.#tasks.get(group) ?? [];
    for (const task of tasks) {
      if (!task.isEnqueued) await cluster.run(this.#enqueue(group, this.#groups.holderOf(group), task));
      if (task.action !== undefined) continue;
      for (const id of task.ids)
        if (!task.confirmed.has(id)) await cluster.run(this.#signal(group, this.#groups.holderOf(group), task, id));
    }
    const left = await this.#groups.workOff(group, ['parked'], (h) => this.#work(group, h, false));
    if (left > 0) this.#groups.report(group, `${left} tasks are left that wait for what has come`);
    const lost = tasks.filter(({ action, hasRun }) => action !== 'cancel' && !hasRun).map(({ pid }) => pid);
    if (lost.length > 0) this.#groups.report(group, `${lost.join(', ')} never ran`);
  }
}
