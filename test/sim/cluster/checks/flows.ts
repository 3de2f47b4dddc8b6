import type { LeasedTask, Pid, TaskView } from '@taskmaster/engine/domain';
import type { EngineHarness, SeededRandom } from '@taskmaster/engine/testing';
import type { SimCluster } from '@taskmaster/node/testing';
import { OwnGroups } from './own-groups.ts';

/** Groups of their own: no other call is about their queues. */
const GROUPS = ['w0', 'w1', 'w2'] as const;
const FLOWS = 10;
const CHILDREN = 4;
/** So that leases expire during the faults. */
const LEASE_MS = 2_000;

const parentPid = (flow: number): string => `p${flow}`;
const childPid = (flow: number, at: number): string => `c${flow}-${at}`;
const children = (flow: number): string[] => Array.from({ length: CHILDREN }, (_, at) => childPid(flow, at));

/**
 * Flows whose children run in the order of a key, and end in every way during the faults.
 *
 * (n) A task of an order key is leased when all that were enqueued before it have ended, and a parent when its children have. It
 * has heard of each of them once, however it ended. In the end all of them have run.
 */
export class Flows {
  readonly #groups: OwnGroups;
  readonly #random: SeededRandom;

  constructor(cluster: SimCluster, random: SeededRandom) {
    this.#groups = new OwnGroups(cluster, GROUPS);
    this.#random = random;
  }

  /** Call it before the first fault. */
  async start(): Promise<void> {
    for (const group of GROUPS) {
      const parents = `${group}#parents`;
      const flows = Array.from({ length: FLOWS }, (_, flow) => [
        { queue: parents, pid: parentPid(flow), waitFor: { signals: CHILDREN, collect: true } },
        ...children(flow).map((pid, at) => ({
          queue: `${group}#children`,
          pid,
          orderKey: `k${at}`,
          parent: { queue: parents, pid: parentPid(flow), onFailure: 'continue' as const },
        })),
      ]);
      await this.#groups.cluster.run(this.#groups.holderOf(group).update({ enqueue: flows.flat() }));
    }
  }

  /** Works on some tasks where their groups are held. Nobody waits for it: the node may crash meanwhile. */
  step(): void {
    for (const group of GROUPS) {
      const holder = this.#groups.cluster.holderOf(group);
      if (holder !== undefined) void this.#work(group, holder.h, true).catch(() => {});
    }
  }

  /** Violations in a settled cluster. `givenUp`: partitions that were lost, or are older copies. */
  violations(givenUp: ReadonlySet<number>): Promise<string[]> {
    return this.#groups.violations('n', givenUp, async (group) => {
      const queues = ['parents', 'children'];
      const left = await this.#groups.workOff(group, queues, (h) => this.#work(group, h, false));
      if (left > 0) this.#groups.report(group, `${left} tasks are left, which wait for something that has ended`);
    });
  }

  async #work(group: string, h: EngineHarness, mayFail: boolean): Promise<void> {
    const leased = await h.lease([`${group}#children`, `${group}#parents`], { max: 5, for: LEASE_MS });
    for (const task of leased) {
      await this.#check(group, h, task);
      await this.#end(h, task, mayFail ? this.#random.int(6) : 0);
    }
  }

  /** Ends a task in one of many ways, or leaves its lease to expire. */
  async #end(h: EngineHarness, { queue, pid, token }: LeasedTask, how: number): Promise<void> {
    const item = { queue: `${queue.group}#${queue.name}`, pid };
    const isParent = queue.name === 'parents';
    if (how <= 1 || (isParent && how < 5)) await h.update({ dequeue: [{ ...item, token, result: `of ${pid}` }] });
    else if (how === 2) await h.update({ dequeue: [item] });
    else if (how === 3) await h.update({ release: [{ ...item, token, error: 'no', deadLetter: true }] });
    else if (how === 4) {
      await h.update({ dequeue: [{ ...item, cancel: 'no' }] });
      await h.update({ release: [{ ...item, token }] });
    }
  }

  async #check(group: string, h: EngineHarness, { queue, pid }: LeasedTask): Promise<void> {
    const report = (problem: string): void => this.#groups.report(group, problem);
    const [flow = 0, at = 0] = pid.slice(1).split('-').map(Number);
    const isParent = queue.name === 'parents';
    const before = isParent ? children(flow) : Array.from({ length: flow }, (_, earlier) => childPid(earlier, at));
    const alive = (await this.#look(group, h, 'children', before)).filter(({ state }) => state !== undefined);
    if (alive.length > 0) report(`${pid} was leased before ${alive.map((view) => view.pid).join(', ')} had ended`);
    if (!isParent) return;
    const [parent] = await this.#look(group, h, 'parents', [pid]);
    if (parent?.state === undefined) return;
    const heard = (parent.signals?.kept ?? []).map(({ child }) => child?.pid ?? '').sort();
    if (heard.join() !== children(flow).join()) report(`${pid} has heard of ${heard.join(', ')}`);
  }

  #look(group: string, h: EngineHarness, name: string, pids: readonly string[]): Promise<readonly TaskView[]> {
    const queue = { group, name };
    if (pids.length === 0) return Promise.resolve([]);
    return h.engine.getTasks({ queue, pids: pids as Pid[], includeData: false, includeSignals: true });
  }
}
