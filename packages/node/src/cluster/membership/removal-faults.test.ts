import type { PartitionId } from '@taskmaster/engine/domain';
import { describe, expect, test } from 'vitest';
import { requestRemoval } from '../../testing/cluster-fixtures.ts';
import { SimCluster, type SimNode } from '../../testing/sim-cluster.ts';

/** CLUSTER_SEEDS: number of seeds, 10 or more for a long run. CLUSTER_FIRST_SEED: the first one. */
const SEEDS = Number(process.env.CLUSTER_SEEDS ?? 5);
const FIRST = Number(process.env.CLUSTER_FIRST_SEED ?? 1);
const STEPS = 40;
const NAMES = ['a', 'b', 'c', 'd', 'e'];

/** Nodes crash and pause, partitions move, and operators remove the nodes that do not run. */
class RemovalRun {
  readonly cluster: SimCluster;
  readonly #standing = new Set<SimNode>();
  readonly #removed = new Set<string>();
  removals = 0;
  /** Number of removals of several members in one step. */
  together = 0;

  constructor(seed: number) {
    this.cluster = new SimCluster({ seed, partitions: 8, latencyMs: 12, loss: 0.03 });
    Object.assign(this.cluster.network.weather, { duplicateRate: 0.03, lateRate: 0.02, lateMs: 3_000 });
  }

  #pick<T>(items: readonly T[]): T | undefined {
    return items[Math.floor(this.cluster.random.next() * items.length)];
  }

  get #members(): SimNode[] {
    return [...this.cluster.nodes.values()].filter(({ name }) => !this.#removed.has(name));
  }

  async play(): Promise<void> {
    for (const name of NAMES) {
      this.#start(this.cluster.add(name));
      await this.cluster.pass(5_000);
    }
    for (let step = 0; step < STEPS; step++) {
      this.#befall();
      const rounds = 2 + Math.floor(this.cluster.random.next() * 60);
      for (let passed = 0; passed < rounds; passed++) {
        this.#send();
        await this.cluster.pass(100);
        this.expectOneHolder();
      }
    }
  }

  /** At most one node may commit to a partition at any time. */
  expectOneHolder(): void {
    for (let id = 0; id < this.cluster.partitions; id++) {
      const committing = this.cluster.serving(id as PartitionId).filter((name) => {
        const node = this.cluster.node(name);
        return !node.h.clock.standsStill && node.agent.mayCommit;
      });
      expect(committing.length, `partition ${id}: ${committing}`).toBeLessThan(2);
    }
  }

  #befall(): void {
    const chance = this.cluster.random.next();
    if (chance < 0.2) this.#lose();
    else if (chance < 0.45) this.#start(this.#pick(this.#down(this.#members)));
    else if (chance < 0.5) this.#start(this.#pick(this.#down(this.cluster.nodes.values())));
    else if (chance < 0.6) this.#standStill();
    else if (chance < 0.75) this.#goOn();
    else this.#remove();
  }

  #down(nodes: Iterable<SimNode>): SimNode[] {
    return [...nodes].filter(({ isUp, isStarting }) => !isUp && !isStarting);
  }

  #start(node: SimNode | undefined): void {
    node?.start().catch(() => node.lose());
  }

  #lose(): void {
    const node = this.#pick(this.cluster.up);
    if (!node) return;
    this.#standing.delete(node);
    void node.lose();
  }

  #standStill(): void {
    const node = this.#pick(this.cluster.up.filter((one) => !this.#standing.has(one)));
    if (!node) return;
    this.#standing.add(node);
    node.h.clock.standStill();
  }

  #goOn(): void {
    const node = this.#pick([...this.#standing]);
    if (!node) return;
    this.#standing.delete(node);
    node.h.clock.goOn();
  }

  #send(): void {
    const [from, to] = [this.#pick(this.cluster.up), this.#pick(this.cluster.up)];
    const held = from && this.#pick(from.partitions.held());
    if (from && to && held && from !== to && held.state === 'serving') from.send(held.id, to).catch(() => {});
  }

  /** A removed node is down or paused, as far as operators can tell. */
  #remove(): void {
    const seemDead = this.#members.filter((node) => !node.isUp || this.#standing.has(node));
    const through = this.#pick(this.cluster.up.filter((node) => !this.#standing.has(node)));
    const names = seemDead.map(({ name }) => name).filter(() => this.cluster.random.next() < 0.7);
    if (names.length === 0 || !through || this.#members.length < names.length + 2) return;
    requestRemoval(this.cluster, through.name, names, { acceptLoss: true }).then(
      () => this.#gone(names),
      () => {},
    );
  }

  #gone(names: readonly string[]): void {
    this.removals++;
    if (names.length > 1) this.together++;
    for (const name of names) this.#removed.add(name);
  }

  async verify(): Promise<void> {
    const { cluster } = this;
    cluster.heal();
    while (this.#standing.size > 0) this.#goOn();
    for (let passed = 0; passed < 200; passed++) {
      await cluster.pass(100);
      this.expectOneHolder();
    }
    for (const node of this.#members) {
      // An operator may not have learned that a removal succeeded.
      if (!node.isUp && !node.isStarting) await cluster.run(node.start().catch(() => {}));
    }
    await cluster.pass(120_000);
    this.expectOneHolder();
    const running = cluster.up.filter(({ agent }) => agent.self?.state === 'active');
    expect(running.length).toBeGreaterThan(0);
    for (let id = 0; id < cluster.partitions; id++) {
      const wanted = running[0]?.agent.desired[id];
      const holders = running.filter(({ partitions }) => partitions.holding(id as PartitionId)?.kind === 'serving');
      expect(holders.map(({ agent }) => agent.nodeId)).toEqual([wanted]);
    }
  }
}

let removals = 0;
let together = 0;

describe('a cluster whose members are removed', () => {
  test.each(Array.from({ length: SEEDS }, (_, i) => FIRST + i))(
    'has one holder for each partition: seed %i',
    async (seed) => {
      const run = new RemovalRun(seed);
      await run.play();
      await run.verify();
      removals += run.removals;
      together += run.together;
    },
  );

  test('has lost members one by one and several at once', () => {
    expect(removals).toBeGreaterThan(0);
    expect(together).toBeGreaterThan(0);
  });
});
