import { type Instant, type PartitionId, Refusal } from '@taskmaster/engine/domain';
import { pidsOf } from '@taskmaster/engine/testing';
import { partitionOf } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { type TransferNode, TwoNodes } from '../../../testing/two-nodes.ts';

const QUEUE = 'orders#new';
const P = partitionOf('orders', 4) as PartitionId;
/** Number of seeds of the simulated disks, which decide what a crash loses. 5 or more for a long run. */
const SEEDS = Number(process.env.SIM_SEEDS ?? 3);
/** Later writes and fsyncs are after the hand-off. */
const LAST_FAILURE = 24;
const LATENCY = { writeMs: 1, syncMs: 1, readMs: 1 };

/** A hand-off under a small load, with a fault. Afterwards all nodes restart and the result is checked. */
class Run {
  readonly nodes: TwoNodes;
  /** Tasks that were acknowledged and not leased since. */
  readonly there = new Set<string>();
  /** Tasks whose enqueue got no answer: they may exist. */
  readonly unknown = new Set<string>();
  /** Number of calls between the nodes so far. */
  calls = 0;

  constructor(seed: number, atomicBatches = true) {
    this.nodes = new TwoNodes({ ...LATENCY, seed, atomicBatches });
  }

  async prepare(): Promise<void> {
    await this.nodes.open();
    await this.nodes.run(this.nodes.a.h.enqueue(QUEUE, ['1', '2', '3', '4']));
    for (const pid of ['1', '2', '3', '4']) this.there.add(pid);
  }

  /** Hands over while tasks are enqueued. Resolves when both have ended or cannot continue. */
  async handOver(): Promise<void> {
    const { a } = this.nodes;
    const sent = a.handOffs?.send(P, { nodeId: 'b', address: 'b' }).catch(() => {});
    for (let i = 0; i < 8; i++) {
      this.enqueue(a, `x${i}`);
      await this.nodes.time.advance(3);
    }
    await this.nodes.time.advance(60_000);
    await Promise.race([sent, Promise.resolve()]);
  }

  /** Enqueues a task and notes the outcome. */
  enqueue(node: TransferNode, pid: string): void {
    this.unknown.add(pid);
    if (!node.handOffs) return;
    node.h.enqueue(QUEUE, [pid]).then(
      () => {
        this.unknown.delete(pid);
        this.there.add(pid);
      },
      (error: unknown) => {
        // If the process is gone or the disk has failed, the task may exist.
        if (error instanceof Refusal && error.reason !== 'STORE_FAILED') this.unknown.delete(pid);
      },
    );
  }

  /** Starts the nodes that are down, in this order. Then one of the two must hold the partition with all its tasks. */
  async verify(order: readonly TransferNode[]): Promise<void> {
    const { nodes } = this;
    for (const node of order) {
      if (!node.handOffs) await nodes.run(node.start());
      await nodes.time.advance(20);
      expect(nodes.serving(P).length).toBeLessThan(2);
    }
    await nodes.time.advance(60_000);
    const serving = nodes.serving(P);
    expect(serving).toHaveLength(1);
    const holder = serving[0] === 'a' ? nodes.a : nodes.b;
    const { available, leased, delayed } = await nodes.run(holder.h.counts(QUEUE));
    const found = pidsOf(await nodes.run(holder.h.lease(QUEUE, { max: 100, for: 1 })));
    expect({ available, leased, delayed }).toEqual({ available: found.length, leased: 0, delayed: 0 });
    expect(found).toEqual([...found].sort());
    for (const pid of this.there) expect(found).toContain(pid);
    for (const pid of found) expect(this.there.has(pid) || this.unknown.has(pid)).toBe(true);
  }
}

/** Numbers of durable steps of each disk and of calls in a hand-off without a fault. */
async function undisturbed(): Promise<{ a: number; b: number; fromA: number; fromB: number; calls: number }> {
  const run = new Run(1);
  await run.prepare();
  const { a, b } = run.nodes;
  const fromA = a.h.disk.steps;
  const fromB = b.h.disk.steps;
  run.nodes.faults.request = () => void run.calls++;
  await run.handOver();
  const steps = { a: a.h.disk.steps, b: b.h.disk.steps };
  await run.verify([a, b]);
  return { ...steps, fromA, fromB, calls: run.calls };
}

describe('after any fault of a hand-off, one node has the partition with every acknowledged task', () => {
  test.each([
    ['holder', 'holder first'],
    ['holder', 'target first'],
    ['target', 'holder first'],
    ['target', 'target first'],
  ] as const)('the %s loses power at a durable step, for every step; then the nodes start, %s', async (who, order) => {
    const { a, b, fromA, fromB } = await undisturbed();
    const [from, to] = who === 'holder' ? [fromA, a] : [fromB, b];
    for (let step = from + 1; step <= to; step++) {
      for (let seed = 1; seed <= SEEDS; seed++) {
        const run = new Run(seed);
        await run.prepare();
        const { nodes } = run;
        const node = who === 'holder' ? nodes.a : nodes.b;
        node.h.disk.onStep = ({ number }) => {
          if (number === step) node.lose();
        };
        await run.handOver();
        node.h.disk.onStep = undefined;
        // Both lose their memory: then the node that did not crash does not ask for the outcome any more.
        if (seed % 2 === 0) (node === nodes.a ? nodes.b : nodes.a).lose();
        await run.verify(order === 'holder first' ? [nodes.a, nodes.b] : [nodes.b, nodes.a]);
      }
    }
  });

  test.each(['request', 'answer'] as const)('any %s is lost, alone or with some that follow', async (what) => {
    const { calls } = await undisturbed();
    for (let lost = 1; lost <= calls; lost++) {
      for (const howMany of [1, 3, 12]) {
        const run = new Run(1);
        await run.prepare();
        run.nodes.faults[what] = () => {
          run.calls++;
          if (run.calls >= lost && run.calls < lost + howMany) throw new Error('lost');
        };
        await run.handOver();
        await run.verify([run.nodes.a, run.nodes.b]);
      }
    }
  });

  test.each(['a', 'b'] as const)('%s loses power at any call, and the link is down for some time', async (name) => {
    const { calls } = await undisturbed();
    for (let at = 1; at <= calls; at++) {
      for (const what of ['request', 'answer'] as const) {
        const run = new Run(1);
        await run.prepare();
        const { nodes } = run;
        const node = nodes[name];
        nodes.faults[what] = () => {
          run.calls++;
          if (run.calls === at) node.lose();
          if (run.calls >= at && run.calls < at + 3) throw new Error('lost');
        };
        await run.handOver();
        await run.verify([nodes.a, nodes.b]);
      }
    }
  });

  test.each([
    ['fsync', 'holder'],
    ['fsync', 'target'],
    ['write', 'holder'],
    ['write', 'target'],
  ] as const)('any %s of the %s fails; the node serves as far as it can, and is restarted', async (what, who) => {
    for (let failing = 1, hit = true; hit && failing <= LAST_FAILURE; failing++) {
      hit = false;
      for (let seed = 1; seed <= SEEDS; seed++) {
        const run = new Run(seed, seed % 3 > 0);
        await run.prepare();
        const { nodes } = run;
        const node = who === 'holder' ? nodes.a : nodes.b;
        if (what === 'fsync') node.h.disk.failSync(failing);
        else node.h.disk.failWrite(failing);
        await run.handOver();
        node.h.disk.failSync(0);
        node.h.disk.failWrite(0);
        // The answers of the failed node must not make both nodes acknowledge tasks.
        for (const other of [nodes.a, nodes.b]) run.enqueue(other, `late at ${other.name}`);
        await nodes.time.advance(100);
        if (node.h.engine.health.kind === 'failed') {
          hit = true;
          if (seed % 2 === 0) node.lose();
          else node.kill();
        }
        await run.verify([nodes.a, nodes.b]);
        // Rows that could be read may not have been on disk.
        nodes.a.lose();
        nodes.b.lose();
        await run.verify([nodes.a, nodes.b]);
      }
    }
  });

  test.each(['holder', 'target'] as const)(
    'the disk of the %s is full from any step on, for some time',
    async (who) => {
      const { a, b, fromA, fromB } = await undisturbed();
      const [from, to] = who === 'holder' ? [fromA, a] : [fromB, b];
      for (let step = from + 1; step <= to; step++) {
        for (const fullMs of [1, 300, 5_000]) {
          const run = new Run(step, step % 3 > 0);
          await run.prepare();
          const { nodes } = run;
          const { disk } = (who === 'holder' ? nodes.a : nodes.b).h;
          disk.onStep = ({ number }) => {
            if (number !== step) return;
            disk.space = 'none';
            nodes.time.at((nodes.time.now() + fullMs) as Instant, () => {
              disk.space = 'plenty';
            });
          };
          await run.handOver();
          disk.onStep = undefined;
          await run.verify([nodes.a, nodes.b]);
        }
      }
    },
  );
});
