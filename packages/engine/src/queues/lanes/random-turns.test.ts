import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type EngineHarness, engineHarness } from '../../testing/engine-harness.ts';
import { limitQueues } from '../../testing/limit-queues.ts';
import { putSettings } from '../../testing/put-settings.ts';

const QUEUE = 'shop#jobs';
const KEYS = ['', 'a', 'b', 'c'] as const;
/** How long each task takes. */
const TASK_MS = 100;
const HOUR = 3_600_000;

const step = fc.oneof(
  fc.record({ do: fc.constant('add' as const), key: fc.constantFrom(...KEYS), count: fc.constantFrom(1, 3, 25) }),
  { weight: 6, arbitrary: fc.record({ do: fc.constant('work' as const), workers: fc.integer({ min: 1, max: 4 }) }) },
  fc.record({ do: fc.constant('weigh' as const), weight: fc.constantFrom(1, 2, 4) }),
  fc.record({ do: fc.constant('limit' as const), maxLeased: fc.constantFrom(1, 9) }),
  fc.record({ do: fc.constant('crash' as const) }),
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

/** Fair turns by the contract: the waiting tasks of each key, and what keys got while another one waited. */
class Model {
  readonly waiting = new Map<string, string[]>(KEYS.map((key) => [key, []]));
  /** By a key that waits: how many tasks of each key were leased since it began to. */
  readonly since = new Map<string, Map<string, number>>();
  weight = 1;
  maxLeased = 9;
  #named = 0;

  add(key: string, count: number): string[] {
    const pids = Array.from({ length: count }, () => `${String(++this.#named).padStart(4, '0')}${key}`);
    const before = this.waiting.get(key) ?? [];
    if (before.length === 0) this.since.set(key, new Map());
    this.waiting.set(key, [...before, ...pids]);
    return pids;
  }

  /** What was counted before says nothing any more. */
  forget(): void {
    for (const key of this.since.keys()) this.since.set(key, new Map());
  }

  weightOf = (key: string): number => (key === 'a' ? this.weight : 1);

  /** How many tasks a request gets. */
  room(most: number): number {
    let room = 0;
    for (const [key, { length }] of this.waiting) room += key === 'a' ? Math.min(this.maxLeased, length) : length;
    return Math.min(most, room);
  }

  /** Takes the first of its key. Returns the one that it should be. */
  take(key: string): string | undefined {
    for (const counts of this.since.values()) counts.set(key, (counts.get(key) ?? 0) + 1);
    const waiting = this.waiting.get(key) ?? [];
    const pid = waiting.shift();
    if (waiting.length === 0) this.since.delete(key);
    return pid;
  }
}

const keyOf = (pid: string): string => pid.replace(/^\d+/, '');

async function work(h: EngineHarness, model: Model, workers: number): Promise<void> {
  const room = model.room(workers);
  const leased = await h.clock.run(h.lease(QUEUE, { max: workers, for: HOUR }));
  // None is left waiting without need.
  expect(leased).toHaveLength(room);
  for (const { pid } of leased) expect(pid).toBe(model.take(keyOf(pid)));
  for (const [key, counts] of model.since) {
    // A key whose limit is used up gets less, and that is not the fault of its turns.
    if (key === 'a' && model.maxLeased < workers) continue;
    for (const [other, count] of counts) {
      const share = model.weightOf(other) / model.weightOf(key);
      const most = ((counts.get(key) ?? 0) + 1) * share + workers + 4 * share;
      expect(count, `tasks of "${other}" while ${counts.get(key) ?? 0} of "${key}" came`).toBeLessThanOrEqual(most);
    }
  }
  await h.clock.advance(TASK_MS);
  const dequeue = leased.map(({ pid, token }) => ({ queue: QUEUE, pid, token }));
  if (dequeue.length > 0) await h.clock.run(h.update({ dequeue }));
}

async function play(h: EngineHarness, model: Model, one: Step): Promise<void> {
  switch (one.do) {
    case 'add': {
      const enqueue = model.add(one.key, one.count).map((pid) => ({ queue: QUEUE, pid, limitKey: one.key }));
      await h.clock.run(h.update({ enqueue }));
      return;
    }
    case 'work':
      for (let round = 0; round < 5; round++) await work(h, model, one.workers);
      return;
    case 'weigh':
      model.weight = one.weight;
      model.forget();
      return h.clock.run(putSettings(h.engine, QUEUE, { fairTurns: { weights: { a: one.weight } } }));
    case 'limit':
      model.maxLeased = one.maxLeased;
      model.forget();
      await h.clock.run(limitQueues(h.engine, QUEUE, { keys: 'a', maxLeased: one.maxLeased }));
      return;
    case 'crash':
      model.forget();
      return h.crash();
  }
}

test('fair turns give each key its first tasks and its share, and leave no worker idle', async () => {
  const property = fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30, size: 'max' }), async (steps) => {
    await using h = await engineHarness();
    const model = new Model();
    await h.clock.run(putSettings(h.engine, QUEUE, { fairTurns: { weights: {} } }));
    for (const one of steps) await play(h, model, one);
  });
  await fc.assert(property, {
    seed: Number(process.env.TURNS_SEED ?? 1),
    numRuns: Number(process.env.TURNS_RUNS ?? 40),
  });
});
