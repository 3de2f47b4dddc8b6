import { partitionOf } from '@taskmaster/proto';
import { type Instant, type PartitionId, Refusal } from '@taskmaster/server/domain';
import { describe, expect, test } from 'vitest';
import { pidsOf } from '../../../testing/engine-harness.ts';
import { type TransferNode, TwoNodes } from '../../../testing/two-nodes.ts';

const QUEUE = 'orders#new';
const P = partitionOf('orders', 4) as PartitionId;
/** Of the simulated disks and the order of what they lose. */
const SEEDS = Number(process.env.SIM_SEEDS ?? 10);
/** Writes and fsyncs after the hand-off are of no more interest. */
const LAST_FAILURE = 24;
const LATENCY = { writeMs: 1, syncMs: 1, readMs: 1 };

/** A hand-off under a little load, which something may befall; then everything is started again and looked at. */
class Run {
  readonly nodes: TwoNodes;
  /** Acknowledged and not taken again. */
  readonly there = new Set<string>();
  /** Asked for, but without an answer: there or not. */
  readonly unknown = new Set<string>();
  /** Calls between the nodes so far. */
  calls = 0;

  constructor(seed: number, atomicBatches = true) {
    this.nodes = new TwoNodes({ ...LATENCY, seed, atomicBatches });
  }

  async prepare(): Promise<void> {
    await this.nodes.open();
    await this.nodes.run(this.nodes.a.h.enqueue(QUEUE, ['1', '2', '3', '4']));
    for (const pid of ['1', '2', '3', '4']) this.there.add(pid);
  }

  /** Hands over while tasks come; resolves when both have come to an end, or can go no further. */
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

  /** Takes note of what becomes of it. */
  enqueue(node: TransferNode, pid: string): void {
    this.unknown.add(pid);
    if (!node.handOffs) return;
    node.h.enqueue(QUEUE, [pid]).then(
      () => {
        this.unknown.delete(pid);
        this.there.add(pid);
      },
      (error: unknown) => {
        // Where its process is gone, or its disk failed, it may be there all the same.
        if (error instanceof Refusal && error.reason !== 'STORE_FAILED') this.unknown.delete(pid);
      },
    );
  }

  /** Whoever is down comes back, in this order; then one of the two has the partition, with everything in it. */
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

/** How many durable steps each disk takes and how many calls are made when nothing happens. */
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

describe('whatever befalls a hand-off, one node has the partition and everything that was acknowledged', () => {
  test.each([
    ['holder', 'holder first'],
    ['holder', 'target first'],
    ['target', 'holder first'],
    ['target', 'target first'],
  ] as const)('the %s loses its power at every durable step; then the nodes start, %s', async (who, order) => {
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
        // Both lose what they remember: the one that did not crash then asks nobody any more.
        if (seed % 2 === 0) (node === nodes.a ? nodes.b : nodes.a).lose();
        await run.verify(order === 'holder first' ? [nodes.a, nodes.b] : [nodes.b, nodes.a]);
      }
    }
  });

  test.each(['request', 'answer'] as const)('any %s is lost, once or from then on for a while', async (what) => {
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

  test.each(['a', 'b'] as const)('%s loses its power at any call, and the link is down for a while', async (name) => {
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
  ] as const)('any %s of the %s fails; it serves on as far as it can, and is started again', async (what, who) => {
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
        // What the failed node says of the partition must not let both of them acknowledge.
        for (const other of [nodes.a, nodes.b]) run.enqueue(other, `late at ${other.name}`);
        await nodes.time.advance(100);
        if (node.h.engine.health.kind === 'failed') {
          hit = true;
          if (seed % 2 === 0) node.lose();
          else node.kill();
        }
        await run.verify([nodes.a, nodes.b]);
        // What showed may not have been on disk.
        nodes.a.lose();
        nodes.b.lose();
        await run.verify([nodes.a, nodes.b]);
      }
    }
  });

  test.each(['holder', 'target'] as const)('the disk of the %s is full from any step on, for a while', async (who) => {
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
  });
});
