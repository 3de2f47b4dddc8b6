import type { LeasedTask, PartitionId } from '@taskmaster/engine/domain';
import { type EngineHarness, limitQueues, type SeededRandom } from '@taskmaster/engine/testing';
import type { SimCluster } from '@taskmaster/node/testing';
import { partitionOf } from '@taskmaster/proto';
import { OwnGroups } from './own-groups.ts';

/** Groups of their own: no other call is about their queues. */
const GROUPS = ['y0', 'y1', 'y2'] as const;
/** Each key has one bucket for both. */
const NAMES = ['one', 'two'] as const;
const KEYS = ['a', 'b'] as const;
/** Of each key. Slow, so that a bucket is empty when a node ends or its group moves: a full one would give its burst again. */
const RATE = { tasks: 2, perMs: 1_500, burst: 3 };
const TOKEN_MS = RATE.perMs / RATE.tasks;
/** Tasks of each key. They last for the faults, and are soon done after them. */
const BACKLOG = 40;
/** Tasks without a key, which no bucket holds back. */
const FREE = 10;
const LEASE_MS = 1_500;
/** The clocks of nodes approach the system clock by at most a thousandth. */
const CLOCK_RATE = 1.001;

/** A lease of a task with a key. It was granted between these instants. */
interface Grant {
  readonly limitKey: string;
  /** How often a shared database had changed hands, as far as the group is concerned. */
  readonly epoch: number;
  readonly from: number;
  readonly to: number;
}

/**
 * Queues with a limit of the rate of each limit key, during the faults.
 *
 * (s) In any time at most as many tasks of a key are leased as its bucket allows, in all queues together, also over crashes,
 * failed writes and moves of the group. No token is lost: all tasks are leased, and then a bucket has its burst, and after that a
 * task a token.
 *
 * A hand-off shifts a bucket by the difference of the clocks. In a shared database a node whose clock is ahead may find it full,
 * also if it has it for a moment only.
 */
export class RatedKeys {
  readonly #groups: OwnGroups;
  readonly #random: SeededRandom;
  readonly #grants = new Map<string, Grant[]>(GROUPS.map((group) => [group, []]));

  constructor(cluster: SimCluster, random: SeededRandom) {
    this.#groups = new OwnGroups(cluster, GROUPS);
    this.#random = random;
  }

  /** Call it before the first fault. */
  async start(): Promise<void> {
    const { cluster } = this.#groups;
    for (const group of GROUPS) {
      const h = this.#groups.holderOf(group);
      await cluster.run(limitQueues(h.engine, `${group}#*`, { keys: '*', rate: RATE }));
      for (const limitKey of KEYS) await cluster.run(add(group, h, limitKey, BACKLOG));
      await cluster.run(add(group, h, undefined, FREE));
    }
  }

  /** Works where the groups are held. */
  step(): void {
    this.#groups.step((group, h) => this.#work(group, h, true));
  }

  /** Violations in a settled cluster. `givenUp`: partitions that were lost, or are older copies. */
  violations(givenUp: ReadonlySet<number>): Promise<string[]> {
    return this.#groups.violations('s', givenUp, async (group) => {
      const left = await this.#groups.workOff(group, NAMES, (h) => this.#work(group, h, false));
      if (left > 0) this.#groups.report(group, `${left} tasks are left for which no token comes`);
      else await this.#useTokens(group);
      for (const limitKey of KEYS) this.#checkRate(group, limitKey);
    });
  }

  async #work(group: string, h: EngineHarness, mayFail: boolean): Promise<void> {
    for (const { queue, pid, token } of await this.#lease(group, h)) {
      if (mayFail && this.#random.chance(0.2)) continue;
      const item = { queue: `${group}#${queue.name}`, pid, token };
      await h.update(mayFail && this.#random.chance(0.2) ? { release: [item] } : { dequeue: [item] });
    }
  }

  /** Leases all that the buckets allow. */
  async #lease(group: string, h: EngineHarness): Promise<readonly LeasedTask[]> {
    const { cluster } = this.#groups;
    const from = cluster.time.now();
    const queues = this.#random.shuffle([...NAMES]).map((name) => `${group}#${name}`);
    const leased = await h.lease(queues, { max: 20, for: LEASE_MS });
    const to = cluster.time.now();
    for (const { history } of leased) {
      const limitKey = history?.given?.limitKey;
      if (limitKey) this.#grants.get(group)?.push({ limitKey, epoch: this.#epochOf(group), from, to });
    }
    return leased;
  }

  #epochOf(group: string): number {
    const { database, partitions } = this.#groups.cluster;
    return database?.holderOf(partitionOf(group, partitions) as PartitionId)?.epoch ?? 0;
  }

  /** The buckets are full when nothing was leased for long enough. From then on each token gives one task. */
  async #useTokens(group: string): Promise<void> {
    const { cluster } = this.#groups;
    const h = this.#groups.holderOf(group);
    await cluster.pass((RATE.burst + 1) * TOKEN_MS * CLOCK_RATE);
    for (const limitKey of KEYS) await cluster.run(add(group, h, limitKey, RATE.burst + 2));
    const counts: number[] = [];
    for (const restMs of [TOKEN_MS / 2, TOKEN_MS, TOKEN_MS, 0]) {
      const leased = await cluster.run(this.#lease(group, h));
      counts.push(leased.length);
      await cluster.pass(restMs);
    }
    const expected = [RATE.burst, 0, 1, 1].map((ofKey) => ofKey * KEYS.length).join();
    if (counts.join() !== expected)
      this.#groups.report(group, `full buckets gave ${counts.join()} tasks, instead of ${expected}`);
  }

  #checkRate(group: string, limitKey: string): void {
    const grants = (this.#grants.get(group) ?? []).filter((grant) => grant.limitKey === limitKey);
    for (const first of grants) {
      for (const last of grants) {
        const passedMs = last.to - first.from;
        const within = grants.filter(({ from, to }) => from >= first.from && to <= last.to);
        const most = (1 + last.epoch - first.epoch) * RATE.burst + Math.floor((passedMs * CLOCK_RATE) / TOKEN_MS);
        if (passedMs < 0 || within.length <= most) continue;
        const what = `${within.length} tasks of the key ${limitKey} were leased`;
        this.#groups.report(group, `${what} from ${first.from} to ${last.to}, at most ${most}`);
        return;
      }
    }
  }
}

async function add(group: string, h: EngineHarness, limitKey: string | undefined, count: number): Promise<void> {
  const enqueue = Array.from({ length: count }, (_, at) => ({
    queue: `${group}#${NAMES[at % NAMES.length]}`,
    pid: `${limitKey ?? ''}-${at}`,
    ...(limitKey !== undefined && { limitKey }),
  }));
  await h.update({ enqueue });
}
