import type { PartitionId } from '@taskmaster/engine/domain';
import { pidsOf } from '@taskmaster/engine/testing';
import { describe, expect, test } from 'vitest';
import { SimCluster, type SimNode } from '../testing/sim-cluster.ts';

/** CLUSTER_SEEDS: number of seeds, 12 or more for a long run. CLUSTER_FIRST_SEED: the first one. */
const SEEDS = Number(process.env.CLUSTER_SEEDS ?? 4);
const FIRST = Number(process.env.CLUSTER_FIRST_SEED ?? 1);
const STEPS = 40;
const GROUPS = Array.from({ length: 12 }, (_, i) => `group-${i}`);
const NAMES = ['a', 'b', 'c', 'd', 'e'];

/** A cluster with random faults, while callers enqueue and complete tasks. */
class FaultyRun {
  readonly cluster: SimCluster;
  /** By group: tasks that were acknowledged and not completed. */
  readonly there = new Map<string, Set<string>>(GROUPS.map((group) => [group, new Set()]));
  /** By group: tasks whose enqueue got no answer: they may exist. */
  readonly unknown = new Map<string, Set<string>>(GROUPS.map((group) => [group, new Set()]));
  readonly #completed = new Set<string>();
  #named = 0;
  #next = 1;

  constructor(seed: number) {
    this.cluster = new SimCluster({ seed, partitions: 8, latencyMs: 12, loss: 0.03 });
  }

  get #random() {
    return this.cluster.random;
  }

  #pick<T>(items: readonly T[]): T | undefined {
    return items[Math.floor(this.#random.next() * items.length)];
  }

  async play(): Promise<void> {
    await this.cluster.run(this.cluster.add('a').start());
    for (let step = 0; step < STEPS; step++) {
      await this.#befall();
      for (let passed = 0; passed < 10; passed++) {
        for (let i = 0; i < 4; i++) this.#call();
        this.#send();
        await this.cluster.pass(1 + Math.floor(this.#random.next() * 60));
        this.expectOneHolder();
      }
    }
  }

  /** At most one node may serve a partition at any time. */
  expectOneHolder(): void {
    for (let id = 0; id < this.cluster.partitions; id++) {
      expect(this.cluster.serving(id as PartitionId).length).toBeLessThan(2);
    }
  }

  async #befall(): Promise<void> {
    const { cluster } = this;
    const chance = this.#random.next();
    if (chance < 0.2 && this.#next < NAMES.length) await this.#join();
    else if (chance < 0.4) await this.#lose();
    else if (chance < 0.65) this.#restart();
    else if (chance < 0.8) this.#cut();
    else if (chance < 0.95) cluster.cut.clear();
  }

  /** Moves a partition, because partitions must not only move when nodes join and leave. */
  #send(): void {
    const [from, to] = [this.#pick(this.cluster.up), this.#pick(this.cluster.up)];
    const held = from && this.#pick(from.partitions.held());
    if (from && to && held && from !== to && held.state === 'serving') from.send(held.id, to).catch(() => {});
  }

  async #join(): Promise<void> {
    const name = NAMES[this.#next++] ?? 'z';
    const node = this.cluster.add(name);
    // If it reaches no member the start fails; the next start tries again.
    node.start().catch(() => {});
    await this.cluster.pass(1);
  }

  async #lose(): Promise<void> {
    const node = this.#pick(this.cluster.up);
    if (node) await this.cluster.run(node.lose());
  }

  #restart(): void {
    const node = this.#pick([...this.cluster.nodes.values()].filter(({ isUp, isStarting }) => !isUp && !isStarting));
    node?.start().catch(() => {});
  }

  #cut(): void {
    const [from, to] = [this.#pick(NAMES), this.#pick(NAMES)];
    this.cluster.cut.add(`${from}>${to}`);
    if (this.#random.next() < 0.7) this.cluster.cut.add(`${to}>${from}`);
  }

  /** A caller enqueues a task, or leases and completes one, at the group's holder. */
  #call(): void {
    const group = this.#pick(GROUPS) ?? 'group-0';
    const node = this.#pick(this.cluster.up);
    if (!node) return;
    if (this.#random.next() < 0.7) this.#enqueue(node, group);
    else this.#complete(node, group).catch(() => {});
  }

  #enqueue(node: SimNode, group: string): void {
    const pid = `${this.#named++}`.padStart(6, '0');
    this.unknown.get(group)?.add(pid);
    node.h.enqueue(`${group}#q`, [pid]).then(
      () => {
        this.unknown.get(group)?.delete(pid);
        if (!this.#completed.has(pid)) this.there.get(group)?.add(pid);
      },
      (error: unknown) => {
        if (isRefusal(error)) this.unknown.get(group)?.delete(pid);
      },
    );
  }

  async #complete(node: SimNode, group: string): Promise<void> {
    const [task] = await node.h.lease(`${group}#q`, { for: 2_000 });
    if (!task) return;
    // From here on the task may be gone.
    this.there.get(group)?.delete(task.pid);
    this.unknown.get(group)?.add(task.pid);
    await node.h.update({ dequeue: [{ queue: `${group}#q`, pid: task.pid, token: task.token }] });
    this.unknown.get(group)?.delete(task.pid);
    this.#completed.add(task.pid);
  }

  /** Ends all faults and starts all nodes. Then every acknowledged task must be at the node that the ring assigns. */
  async verify(): Promise<void> {
    const { cluster } = this;
    cluster.heal();
    await cluster.pass(20_000);
    for (const node of cluster.nodes.values()) if (!node.isUp && !node.isStarting) await cluster.run(node.start());
    await cluster.pass(120_000);
    this.expectOneHolder();
    const [first] = cluster.up;
    for (let id = 0; id < cluster.partitions; id++) {
      const wanted = first?.agent.desired[id];
      expect(cluster.serving(id as PartitionId).map((name) => `id-${name}`)).toEqual([wanted]);
    }
    for (const group of GROUPS) {
      const holder = cluster.holderOf(group);
      if (!holder) throw new Error(`no node serves ${group}`);
      const { available, leased } = await cluster.run(holder.h.counts(`${group}#q`));
      const found = pidsOf(await cluster.run(holder.h.lease(`${group}#q`, { max: 1000 })));
      expect(available + leased).toBe(found.length);
      for (const pid of this.there.get(group) ?? []) expect(found).toContain(pid);
      for (const pid of found) {
        expect(this.there.get(group)?.has(pid) || this.unknown.get(group)?.has(pid)).toBe(true);
        expect(this.#completed.has(pid)).toBe(false);
      }
    }
  }
}

const isRefusal = (error: unknown): boolean => error instanceof Error && error.name.endsWith('Refusal');

describe('a cluster with random faults', () => {
  test.each(Array.from({ length: SEEDS }, (_, i) => FIRST + i))('loses nothing: seed %i', async (seed) => {
    const run = new FaultyRun(seed);
    await run.play();
    await run.verify();
  });
});
