import {
  type Call,
  type EnqueueCall,
  History,
  type LeasedReply,
  type Outcome,
  type UpdateCall,
  violationsOf,
} from '@taskmaster/cli/testing/history';
import { EngineHarness, engineHarness, SeededRandom } from '@taskmaster/engine/testing';
import { describe, expect, test } from 'vitest';
import { ask } from '../model/engine-caller.ts';
import { countsOf, expectSoundDisk } from './observe.ts';

/** SIM_CYCLES: number of cycles of a longer run. */
const CYCLES = Number(process.env.SIM_CYCLES ?? 250);
/** Failed tasks come back at once. */
const AT_ONCE = { maxAttempts: 0, backoffInitialMs: 0, backoffMaxMs: 0, deadLetterQueue: '' };
const QUEUES = ['g#fetch', 'g#index', 'g#done'];
/** Number of cycles between two comparisons of the disk with the counts. */
const CYCLES_BETWEEN_SCANS = 25;

/** Producers and workers, until a power loss. */
class Load {
  readonly history = new History();
  readonly #h: EngineHarness;
  readonly #random: SeededRandom;
  #held: LeasedReply[] = [];
  #named = 0;

  constructor(h: EngineHarness, seed: number) {
    this.#h = h;
    this.#random = new SeededRandom(seed);
  }

  /** Makes a few concurrent calls. The power loss interrupts some of them. */
  async cycle(): Promise<void> {
    const { disk, clock } = this.#h;
    const last = disk.steps + 1 + this.#random.int(24);
    let lost = false;
    disk.onStep = ({ number }) => {
      if (number !== last) return;
      lost = true;
      clock.stop();
      this.history.crash(clock.now());
      disk.crash();
    };
    for (let turn = 0; turn < 40 && !lost; turn++) {
      for (let calls = this.#random.int(4); calls > 0; calls--) this.#call();
      await clock.advance(this.#random.int(4));
    }
    disk.onStep = undefined;
    if (!lost) this.history.crash(clock.now());
    await this.#h.crash();
  }

  #call(): void {
    const task = this.#held.splice(this.#random.int(Math.max(1, this.#held.length)), 1)[0];
    const choice = this.#random.int(6);
    if (task === undefined || choice === 0) {
      this.#enqueueOrLease();
      return;
    }
    const { queue, pid, token } = task;
    const item = { queue, pid, token };
    const next = QUEUES[QUEUES.indexOf(queue) + 1];
    if (choice === 1) this.#update({ release: [{ ...item, delayMs: this.#random.int(30), refund: false }] });
    else if (choice === 2) this.#update({ renew: [{ ...item, leaseDurationMs: 500 }] });
    else this.#update({ dequeue: [item], enqueue: next === undefined ? [] : [this.#task(next)] });
    if (choice === 2) this.#held.push(task);
  }

  #enqueueOrLease(): void {
    const queue = this.#random.pick(QUEUES);
    if (this.#random.chance(0.4)) this.#update({ enqueue: [this.#task(queue), this.#task(queue)] });
    else this.#lease(queue);
  }

  #lease(queue: string): void {
    const bounds = { maxTasks: 3, maxPid: undefined, maxBytes: 1e9, leaseDurationMs: 20 + this.#random.int(400) };
    const waitMs = this.#random.pick([0, 50]);
    this.#ask({ kind: 'lease', queues: [queue], waitMs, ...bounds }).then((outcome) => {
      if (outcome.kind === 'leased') this.#held.push(...outcome.tasks);
    });
  }

  #task(queue: string): EnqueueCall {
    const pid = this.#random.chance(0.5) ? undefined : `${this.#random.int(20)}`;
    return { queue, pid, data: `${this.#named++}`, mode: 'collapse', delayMs: 0, retry: AT_ONCE };
  }

  #update(items: Partial<UpdateCall>): void {
    const none = { enqueue: [], dequeue: [], renew: [], release: [], requestId: undefined };
    void this.#ask({ kind: 'update', ...none, ...items });
  }

  #ask(call: Call): Promise<Outcome> {
    const { clock, engine, disk } = this.#h;
    return ask(engine, call, this.history, () => clock.now(), disk.atomicBatches).ended;
  }
}

describe.each([true, false])('power losses (atomic batches: %s)', (atomicBatches) => {
  test(`${CYCLES} in a row lose no acknowledged task`, async () => {
    const h = new EngineHarness({
      seed: 7,
      atomicBatches,
      writeMs: 1,
      syncMs: 2,
      readMs: 1,
      config: { cacheBytes: 8192, checkpointIntervalMs: 20 },
    });
    await h.open();
    const load = new Load(h, 8);
    for (let cycle = 1; cycle <= CYCLES; cycle++) {
      await load.cycle();
      if (cycle % CYCLES_BETWEEN_SCANS === 0) await expectSoundDisk(h);
    }
    const found = [];
    for (const { queue } of await h.clock.run(countsOf(h))) {
      await h.clock.advance(1000);
      for (const { pid, data } of await h.clock.run(h.lease(queue, { max: 100_000 }))) {
        found.push({ queue, pid, data: Buffer.from(data).toString() });
      }
    }
    const { events } = load.history;
    expect(violationsOf(events, found)).toEqual([]);
    const acknowledged = events.filter(({ outcome }) => outcome.kind === 'updated').length;
    const interrupted = events.filter(({ outcome }) => outcome.kind === 'unknown').length;
    expect(acknowledged, 'calls were acknowledged').toBeGreaterThan(CYCLES);
    expect(interrupted, 'power losses interrupted calls').toBeGreaterThan(CYCLES / 2);
    await h[Symbol.asyncDispose]();
  }, 60_000);
});

describe('relaxed durability', () => {
  const flushIntervalMs = 50;
  const latency = { writeMs: 1, syncMs: 2 };
  /** Longest time until an acknowledged write is durable: the interval after the previous flush, and both flushes. */
  const WINDOW_MS = flushIntervalMs + 2 * (latency.writeMs + latency.syncMs);

  test('loses at most the latest tasks that were acknowledged within its window', async () => {
    const config = { durability: { kind: 'relaxed', flushIntervalMs }, checkpointIntervalMs: 3000 } as const;
    let everLost = 0;
    for (let seed = 1; seed <= 40; seed++) {
      const h = new EngineHarness({ seed, ...latency, config });
      await h.open();
      const acknowledgedAt: number[] = [];
      for (let i = 0; i < 20 + seed; i++) {
        await h.clock.run(h.enqueue('mail', [`${1000 + i}`]));
        acknowledgedAt.push(h.clock.now());
        await h.clock.advance(h.random.int(10));
      }
      await h.crash();
      const lostFrom = h.clock.now() - WINDOW_MS;
      const { available } = await h.clock.run(h.counts('mail'));
      const left = (await h.clock.run(h.lease('mail', { max: 1000 }))).map(({ pid }) => Number(pid) - 1000);
      expect(left).toEqual(Array.from({ length: available }, (_, i) => i));
      for (const at of acknowledgedAt.slice(available)) expect(at).toBeGreaterThanOrEqual(lostFrom);
      everLost += acknowledgedAt.length - available;
      await h[Symbol.asyncDispose]();
    }
    expect(everLost, 'at least one power loss lost tasks').toBeGreaterThan(0);
  });

  test('applies no update in part on a disk without atomic batches', async () => {
    const config = { durability: { kind: 'relaxed', flushIntervalMs } } as const;
    for (let seed = 1; seed <= 20; seed++) {
      const h = await engineHarness({ seed, atomicBatches: false, ...latency, config });
      for (let i = 0; i < 20; i++) {
        await h.clock.run(h.enqueue('mail', [`${1000 + i}`]));
        await h.clock.advance(h.random.int(10));
      }
      await h.crash();
      await expectSoundDisk(h);
      await h[Symbol.asyncDispose]();
    }
  });
});
