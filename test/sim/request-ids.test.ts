import { type EngineHarness, engineHarness, SeededRandom, type UpdateSpec } from '@taskmaster/engine/testing';
import { describe, expect, test } from 'vitest';
import { expectSoundDisk } from './observe.ts';

const latency = { writeMs: 1, syncMs: 1, readMs: 1 };
/** The default window, minus the duration of a call. */
const WINDOW_MS = 119_000;
const REUSED = { reason: 'REQUEST_ID_REUSED' };

/** Repeats an update until it is answered, like the retries of a caller. */
class StubbornCaller {
  sent = 0;
  readonly #h: EngineHarness;
  readonly #random: SeededRandom;

  constructor(h: EngineHarness, seed: number) {
    this.#h = h;
    this.#random = new SeededRandom(seed);
  }

  async update(spec: UpdateSpec): Promise<void> {
    const firstAt = this.#h.clock.now();
    for (;;) {
      this.sent++;
      let isAnswered = false;
      const answer = this.#h.update(spec).then(() => {
        isAnswered = true;
      });
      const fate = this.#random.int(10);
      if (fate === 0) {
        // The node crashes before, while or after the update becomes durable.
        await this.#h.clock.advance(this.#random.int(4));
        await this.#h.crash();
        if (isAnswered) return;
      } else {
        await this.#h.clock.run(answer);
        // Sometimes the reply is lost and the request is repeated, until the window is over.
        const leftMs = firstAt + WINDOW_MS - this.#h.clock.now();
        if (fate > 3 || leftMs < 1000) return;
        await this.#h.clock.advance(this.#random.int(this.#random.pick([10, leftMs])));
        if (fate === 1) await this.#h.crash();
      }
    }
  }
}

describe.each([
  { memory: 'none of the ids', requestIdCacheBytes: 1, atomicBatches: true },
  { memory: 'none of the ids', requestIdCacheBytes: 1, atomicBatches: false },
  { memory: 'some of the ids', requestIdCacheBytes: 2000, atomicBatches: true },
  { memory: 'all of the ids', requestIdCacheBytes: 1e6, atomicBatches: true },
])('with $memory in memory (atomic batches: $atomicBatches)', ({ requestIdCacheBytes, atomicBatches }) => {
  test('hundreds of repeated requests are applied once each', async () => {
    const REQUESTS = 400;
    await using h = await engineHarness({ ...latency, atomicBatches, config: { requestIdCacheBytes } });
    const caller = new StubbornCaller(h, requestIdCacheBytes);
    for (let i = 0; i < REQUESTS; i++) {
      // Without a PID a second application would create a second task.
      await caller.update({ enqueue: [{ queue: 'mail', data: `${i}` }], id: `request ${i}` });
    }
    const tasks = await h.clock.run(h.lease('mail', { max: 10_000 }));
    expect(tasks.map(({ data }) => Buffer.from(data).toString())).toEqual(
      Array.from({ length: REQUESTS }, (_, i) => `${i}`),
    );
    expect(caller.sent, 'replies were lost').toBeGreaterThan(REQUESTS * 1.2);
    await expectSoundDisk(h);
  });

  test('a different request with a used id is refused and changes nothing, also after a restart', async () => {
    await using h = await engineHarness({ ...latency, atomicBatches, config: { requestIdCacheBytes } });
    await h.clock.run(h.enqueue('mail', ['a', 'b']));
    const first: UpdateSpec = {
      dequeue: [{ queue: 'mail', pid: 'a' }],
      enqueue: [{ queue: 'sent', pid: 'a' }],
      id: 'x',
    };
    await h.clock.run(h.update(first));
    const others: UpdateSpec[] = [
      {
        enqueue: [
          { queue: 'mail', pid: 'c' },
          { queue: 'mail', pid: 'd' },
        ],
        id: 'x',
      },
      { dequeue: [{ queue: 'mail', pid: 'b' }], id: 'x' },
      { dequeue: [{ queue: 'mail', pid: 'b' }], enqueue: [{ queue: 'sent', pid: 'a' }], id: 'x' },
      { dequeue: [{ queue: 'mail', pid: 'a' }], enqueue: [{ queue: 'sent', pid: 'b' }], id: 'x' },
      { dequeue: [{ queue: 'mail', pid: 'a' }], enqueue: [{ queue: 'sent', pid: 'a', data: 'other' }], id: 'x' },
      { enqueue: [{ queue: 'sent', pid: 'a' }], id: 'x' },
    ];
    for (let restart = 0; restart < 2; restart++) {
      for (const other of others) {
        await expect(h.clock.run(h.update(other)), JSON.stringify(other)).rejects.toMatchObject(REUSED);
      }
      expect((await h.clock.run(h.update(first))).enqueued).toHaveLength(1);
      expect(await h.clock.run(h.counts('mail'))).toMatchObject({ available: 1 });
      expect(await h.clock.run(h.counts('sent'))).toMatchObject({ available: 1 });
      await h.crash();
    }
  });
});
