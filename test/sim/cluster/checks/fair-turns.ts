import type { LeasedTask, TaskView } from '@taskmaster/engine/domain';
import { type EngineHarness, putSettings, type SeededRandom } from '@taskmaster/engine/testing';
import type { SimCluster } from '@taskmaster/node/testing';
import { parseQueueName } from '@taskmaster/proto';
import { OwnGroups } from './own-groups.ts';

/** Groups of their own: no other call is about their queues. */
const GROUPS = ['x0', 'x1', 'x2'] as const;
/** Backlogs of keys, one much larger than the others. Tasks without a key have turns, too. */
const BACKLOGS: Readonly<Record<string, number>> = { busy: 60, calm: 6, rare: 3, '': 6 };
const LEASE_MS = 1_500;
/** The last part: keys that have no past, with so many tasks, of which each takes so long. */
const LAST = { large: 80, small: 10, heavy: 80 };
const WEIGHT = 3;
const WORKERS = 4;
const WORK_MS = 100;
/** How far the counts of keys may be from their shares: each worker may be ahead by a task of each key. */
const SLACK = WORKERS + 2;

/**
 * Queues that are served in fair turns during the faults.
 *
 * (r) Of the tasks of a key those are leased first that are first by PID. No turn is lost: each task is leased. After the faults
 * keys have shares of the time of workers by their weights, whatever their backlogs are.
 */
export class FairTurns {
  readonly #groups: OwnGroups;
  readonly #random: SeededRandom;

  constructor(cluster: SimCluster, random: SeededRandom) {
    this.#groups = new OwnGroups(cluster, GROUPS);
    this.#random = random;
  }

  /** Call it before the first fault. */
  async start(): Promise<void> {
    for (const group of GROUPS) {
      const h = this.#groups.holderOf(group);
      const settings = { fairTurns: { weights: { heavy: WEIGHT } } };
      await this.#groups.cluster.run(putSettings(h.engine, `${group}#turns`, settings));
      for (const [key, count] of Object.entries(BACKLOGS))
        await this.#groups.cluster.run(this.#add(group, h, key, count));
    }
  }

  /** Works where the groups are held. */
  step(): void {
    this.#groups.step((group, h) => this.#work(group, h, true));
  }

  /** Violations in a settled cluster. `givenUp`: partitions that were lost, or are older copies. */
  violations(givenUp: ReadonlySet<number>): Promise<string[]> {
    return this.#groups.violations('r', givenUp, async (group) => {
      const left = await this.#groups.workOff(group, ['turns'], (h) => this.#work(group, h, false));
      if (left > 0) this.#groups.report(group, `${left} tasks are left that have no turn`);
      else await this.#share(group);
    });
  }

  async #add(group: string, h: EngineHarness, limitKey: string, count: number): Promise<void> {
    const queue = `${group}#turns`;
    const enqueue = Array.from({ length: count }, (_, at) => ({
      queue,
      pid: `${limitKey}-${String(at).padStart(3, '0')}`,
      ...(limitKey !== '' && { limitKey }),
    }));
    await h.update({ enqueue });
  }

  async #work(group: string, h: EngineHarness, mayFail: boolean): Promise<void> {
    const leased = await h.lease(`${group}#turns`, { max: 1 + this.#random.int(5), for: LEASE_MS });
    await this.#checkOrder(group, h, leased);
    for (const { pid, token } of leased) {
      if (mayFail && this.#random.chance(0.3)) continue;
      const item = { queue: `${group}#turns`, pid, token };
      await h.update(mayFail && this.#random.chance(0.2) ? { release: [item] } : { dequeue: [item] });
    }
  }

  /** Tasks that were never leased have waited since before the request. None of them is before one of its key that was leased. */
  async #checkOrder(group: string, h: EngineHarness, leased: readonly LeasedTask[]): Promise<void> {
    const queue = parseQueueName(`${group}#turns`);
    const waiting = await h.engine.peekTasks({ queue, kind: 'head', limit: 200, includeData: false });
    const fresh = waiting.filter(({ state }) => state?.visibility.kind === 'available' && state.attempts === 0);
    for (const { pid } of leased) {
      const passed = fresh.filter((view) => keyOf(view) === keyOf({ pid }) && view.pid < pid).map((view) => view.pid);
      if (passed.length > 0) this.#groups.report(group, `${pid} was leased before ${passed.join(', ')}`);
    }
  }

  /** Workers take new tasks as they complete others, until the small key has none. Then all have had their shares. */
  async #share(group: string): Promise<void> {
    const { cluster } = this.#groups;
    const h = this.#groups.holderOf(group);
    for (const [key, count] of Object.entries(LAST)) await cluster.run(this.#add(group, h, key, count));
    const counts = new Map<string, number>();
    let leased: readonly LeasedTask[] = [];
    while ((counts.get('small') ?? 0) < LAST.small) {
      leased = await cluster.run(h.lease(`${group}#turns`, { max: WORKERS, for: 10 * WORK_MS }));
      for (const task of leased) counts.set(keyOf(task), (counts.get(keyOf(task)) ?? 0) + 1);
      if (leased.length === 0) break;
      await cluster.pass(WORK_MS);
      const dequeue = leased.map(({ pid, token }) => ({ queue: `${group}#turns`, pid, token }));
      await cluster.run(h.update({ dequeue }));
    }
    for (const [key, share] of [
      ['small', 1],
      ['large', 1],
      ['heavy', WEIGHT],
    ] as const) {
      const [count, expected] = [counts.get(key) ?? 0, share * LAST.small];
      if (Math.abs(count - expected) <= SLACK) continue;
      const all = [...counts].map(([one, tasks]) => `${tasks} of ${one}`).join(', ');
      this.#groups.report(group, `the workers got ${all}: ${expected} of ${key} are its share`);
    }
  }
}

const keyOf = ({ pid }: Pick<TaskView, 'pid'>): string => pid.slice(0, pid.indexOf('-'));
