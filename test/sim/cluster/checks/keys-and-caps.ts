import { type LeasedTask, Refusal, type TaskView } from '@taskmaster/engine/domain';
import {
  type EngineHarness,
  type EnqueueSpec,
  limitQueues,
  putSettings,
  type SeededRandom,
} from '@taskmaster/engine/testing';
import type { SimCluster } from '@taskmaster/node/testing';
import { EnqueueResult, parseQueueName, reservedQueues, WhenFull } from '@taskmaster/proto';
import { OwnGroups } from './own-groups.ts';

/** Groups of their own: no other call is about their queues. */
const GROUPS = ['v0', 'v1', 'v2'] as const;
const WHEN_FULL = {
  refuse: WhenFull.WHEN_FULL_REFUSE,
  oldest: WhenFull.WHEN_FULL_DROP_OLDEST,
  newest: WhenFull.WHEN_FULL_DROP_NEWEST,
} as const;
type Name = keyof typeof WHEN_FULL;
const NAMES = Object.keys(WHEN_FULL) as Name[];
const PARENTS = 'parents';

/** Of each limit key, over all queues of a group. */
const MOST_LEASED = 2;
/** Of a queue, and of each limit key in it. */
const CAP = 6;
const KEY_CAP = 3;
const LIMIT_KEYS = ['a', 'b', 'c', ''];
/** Few, so that tasks with a key meet each other. */
const KEYS = ['k0', 'k1', 'k2', 'k3'];

/** Expires during the faults. */
const LEASE_MS = 1_500;
/** The clocks of nodes approach the system clock by at most a thousandth. */
const CLOCK_RATE = 1.001;
const ALL = '';

/** A lease that is surely valid until then. */
interface Held {
  readonly limitKey: string;
  readonly until: number;
}

/** Tasks that wait and tasks that are leased: all of a queue, and those of each limit key. */
interface Snapshot {
  readonly waiting: ReadonlyMap<string, number>;
  readonly leased: ReadonlyMap<string, number>;
}

/**
 * Queues with a limit of each limit key and with caps of each kind, during the faults.
 *
 * (p) No key has more leased tasks than its limit allows, in all queues together, and each slot that becomes free lets the work
 * go on. No enqueue adds to more waiting tasks than a cap allows, and none is refused without need. A parent hears of each child
 * once, also of those that are dropped. No deduplication key outlives its task.
 */
export class KeysAndCaps {
  readonly #groups: OwnGroups;
  readonly #random: SeededRandom;
  /** By group, and by queue, PID and token. */
  readonly #held = new Map<string, Map<string, Held>>(GROUPS.map((group) => [group, new Map()]));
  /** By the PID of a parent: the PIDs of its children. */
  readonly #children = new Map<string, readonly string[]>();
  #named = 0;

  constructor(cluster: SimCluster, random: SeededRandom) {
    this.#groups = new OwnGroups(cluster, GROUPS);
    this.#random = random;
  }

  /** Call it before the first fault. */
  async start(): Promise<void> {
    for (const group of GROUPS) {
      const { engine } = this.#groups.holderOf(group);
      await this.#groups.cluster.run(limitQueues(engine, `${group}#*`, { keys: '*', maxLeased: MOST_LEASED }));
      for (const name of NAMES) {
        const caps = { maxBacklog: CAP, maxKeyBacklog: KEY_CAP, whenFull: WHEN_FULL[name] };
        await this.#groups.cluster.run(putSettings(engine, `${group}#${name}`, caps));
      }
    }
  }

  /** Works where the groups are held. */
  step(): void {
    this.#groups.step((group, h) => this.#addAndWork(group, h));
  }

  /** Violations in a settled cluster. `givenUp`: partitions that were lost, or are older copies. */
  violations(givenUp: ReadonlySet<number>): Promise<string[]> {
    return this.#groups.violations('p', givenUp, async (group) => {
      const left = await this.#groups.workOff(group, [...NAMES, PARENTS], (h) => this.#work(group, h, false));
      if (left > 0) this.#groups.report(group, `${left} tasks are left that cannot be leased`);
      else await this.#groups.cluster.run(this.#fill(group, this.#groups.holderOf(group)));
    });
  }

  async #addAndWork(group: string, h: EngineHarness): Promise<void> {
    const name = this.#random.pick(NAMES);
    await this.#add(group, h, name, this.#random.chance(0.3) ? this.#keyed(group, name) : this.#family(group, name));
    await this.#work(group, h, true);
  }

  #keyed(group: string, name: Name): EnqueueSpec[] {
    const delay = this.#random.chance(0.3) ? 300 : 0;
    const limitKey = this.#random.pick(LIMIT_KEYS);
    return [{ queue: `${group}#${name}`, pid: `${++this.#named}`, key: this.#random.pick(KEYS), limitKey, delay }];
  }

  /** A parent that waits for the ends of its children. */
  #family(group: string, name: Name): EnqueueSpec[] {
    const pid = `p${++this.#named}`;
    const pids = Array.from({ length: 1 + this.#random.int(3) }, (_, at) => `${pid}-${at}`);
    this.#children.set(pid, pids);
    const parent = { queue: `${group}#${PARENTS}`, pid };
    const children = pids.map((child) => ({
      queue: `${group}#${name}`,
      pid: child,
      limitKey: this.#random.pick(LIMIT_KEYS),
      delay: this.#random.chance(0.2) ? this.#random.int(600) : 0,
      parent: { ...parent, onFailure: 'continue' as const },
    }));
    return [{ ...parent, waitFor: { signals: pids.length, collect: true } }, ...children];
  }

  async #add(group: string, h: EngineHarness, name: Name, enqueue: readonly EnqueueSpec[]): Promise<void> {
    const queue = `${group}#${name}`;
    const before = await snapshot(h, queue);
    const isRefused = await h.update({ enqueue: [...enqueue] }).then(
      () => false,
      (error: unknown) => {
        if (error instanceof Refusal && error.reason === 'BACKLOG_FULL' && name === 'refuse') return true;
        throw error;
      },
    );
    const after = await snapshot(h, queue);
    const added = new Map<string, number>();
    for (const { limitKey = '' } of enqueue.filter((one) => one.queue === queue)) {
      added.set(ALL, (added.get(ALL) ?? 0) + 1);
      if (limitKey !== '') added.set(limitKey, (added.get(limitKey) ?? 0) + 1);
    }
    let mayRefuse = false;
    for (const [scope, more] of added) {
      const most = scope === ALL ? CAP : KEY_CAP;
      // Those whose leases end meanwhile come back, whatever waits.
      const comeBack = before.leased.get(scope) ?? 0;
      const [waited, waiting] = [before.waiting.get(scope) ?? 0, after.waiting.get(scope) ?? 0];
      if (waiting > Math.max(most, waited) + comeBack) {
        const from = `${waited} waited before and ${comeBack} were leased`;
        this.#groups.report(group, `${waiting} tasks wait in ${queue} with the key "${scope}", of which ${from}`);
      }
      mayRefuse ||= waited + comeBack + more > most;
    }
    if (isRefused && !mayRefuse)
      this.#groups.report(group, `${queue} was not full and refused ${enqueue.length} tasks`);
  }

  async #work(group: string, h: EngineHarness, mayFail: boolean): Promise<void> {
    const calledAt = this.#groups.cluster.time.now();
    const queues = this.#random.shuffle([...NAMES, PARENTS]).map((name) => `${group}#${name}`);
    const leased = await h.lease(queues, { max: 1 + this.#random.int(6), for: LEASE_MS });
    this.#hold(group, leased, calledAt);
    for (const task of leased) {
      if (task.queue.name === PARENTS) await this.#checkParent(group, h, task);
      if (mayFail && this.#random.chance(0.2)) continue;
      // From here on its lease may have ended.
      this.#held.get(group)?.delete(nameOf(task));
      const item = { queue: `${group}#${task.queue.name}`, pid: task.pid, token: task.token };
      const isReleased = mayFail && this.#random.chance(0.2);
      await h.update(isReleased ? { release: [{ ...item, delay: this.#random.int(300) }] } : { dequeue: [item] });
    }
  }

  /** Notes new leases. Those of one key that are valid now with them are at most as many as the limit allows. */
  #hold(group: string, leased: readonly LeasedTask[], calledAt: number): void {
    const held = this.#held.get(group);
    const now = this.#groups.cluster.time.now();
    const until = calledAt + LEASE_MS / CLOCK_RATE;
    for (const [name, lease] of held ?? []) if (lease.until <= now) held?.delete(name);
    if (until <= now) return;
    for (const task of leased) {
      const limitKey = task.history?.given?.limitKey ?? '';
      if (limitKey !== '') held?.set(nameOf(task), { limitKey, until });
    }
    for (const key of LIMIT_KEYS) {
      const count = [...(held?.values() ?? [])].filter(({ limitKey }) => limitKey === key).length;
      if (count > MOST_LEASED) this.#groups.report(group, `${count} tasks with the key ${key} are leased`);
    }
  }

  async #checkParent(group: string, h: EngineHarness, { pid }: LeasedTask): Promise<void> {
    const queue = { group, name: PARENTS };
    const [parent] = await h.engine.getTasks({ queue, pids: [pid], includeData: false, includeSignals: true });
    if (parent?.state === undefined) return;
    const heard = (parent.signals?.kept ?? []).map(({ child }) => child?.pid ?? '').sort();
    if (heard.join() !== this.#children.get(pid)?.join())
      this.#groups.report(group, `${pid} has heard of ${heard.join()}`);
  }

  /** Fills the empty queues: all keys are free, and the caps hold exactly. */
  async #fill(group: string, h: EngineHarness): Promise<void> {
    const keys = parseQueueName(`${group}#${reservedQueues.keys}`);
    const { totals } = await h.engine.queueStats({ kind: 'named', queues: [keys] });
    if (totals.available + totals.delayed > 0) this.#groups.report(group, `keys of tasks are left that have ended`);
    for (const name of NAMES) {
      const queue = `${group}#${name}`;
      for (const key of KEYS.slice(0, KEY_CAP)) {
        const { enqueued } = await h.update({ enqueue: [{ queue, pid: `last ${key}`, key, limitKey: 'a' }] });
        const isNew = enqueued[0]?.result === EnqueueResult.ENQUEUE_RESULT_CREATED;
        if (!isNew) this.#groups.report(group, `the key ${key} is in use in ${queue}, which has no tasks`);
      }
      for (let more = 0; more < CAP + 2; more++) {
        const limitKey = more === 0 ? 'a' : '';
        await this.#add(group, h, name, [{ queue, pid: `last ${more}`, limitKey }]);
      }
      const { waiting } = await snapshot(h, queue);
      // The tasks with keys have the largest PIDs, so none of them is dropped.
      const [all, ofKey] = [waiting.get(ALL), waiting.get('a')];
      if (all !== CAP || ofKey !== KEY_CAP)
        this.#groups.report(group, `${queue} is full with ${all}, ${ofKey} of a key`);
    }
  }
}

const nameOf = ({ queue, pid, token }: LeasedTask): string => `${queue.name} ${pid} ${token}`;

async function snapshot(h: EngineHarness, name: string): Promise<Snapshot> {
  const queue = parseQueueName(name);
  const counts = { waiting: new Map<string, number>(), leased: new Map<string, number>() };
  // In this order no task is missed that becomes available, or whose lease ends, between two of the reads. It may be read twice.
  const waits = new Set<string>();
  for (const kind of ['leased', 'delayed', 'head'] as const) {
    for (const task of await h.engine.peekTasks({ queue, kind, limit: 100, includeData: false })) {
      if (kind !== 'leased' && waits.has(task.pid)) continue;
      if (kind !== 'leased') waits.add(task.pid);
      const to = kind === 'leased' ? counts.leased : counts.waiting;
      for (const scope of scopesOf(task)) to.set(scope, (to.get(scope) ?? 0) + 1);
    }
  }
  return counts;
}

const scopesOf = ({ state }: TaskView): string[] => {
  const limitKey = state?.history?.given?.limitKey ?? '';
  return limitKey === '' ? [ALL] : [ALL, limitKey];
};
