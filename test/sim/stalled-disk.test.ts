import { engineHarness, pidsOf } from '@taskmaster/engine/testing';
import { expect, test } from 'vitest';

const STALL_MS = 30_000;
const config = { maxInFlightRequests: 1000 };

test('while a disk stalls for 30 s, the work in flight is bounded, and none is lost', async () => {
  await using h = await engineHarness({ writeMs: 1, syncMs: 1, config });
  await h.clock.run(
    h.enqueue(
      'mail',
      Array.from({ length: 200 }, (_, i) => `${1000 + i}`),
    ),
  );
  const leased = await h.clock.run(h.lease('mail', { max: 100, for: 120_000 }));
  await h.clock.advance(10); // so that the disk is idle

  h.disk.stallWrite(STALL_MS);
  const answers = { done: 0, overloaded: 0 };
  const settle = (call: Promise<unknown>): void => {
    call.then(
      () => answers.done++,
      (error: unknown) => {
        expect(error).toMatchObject({ reason: 'OVERLOADED', retryDelayMs: 100 });
        answers.overloaded++;
      },
    );
  };
  for (let i = 0; i < 5000; i++) settle(h.enqueue('new', [`${10_000 + i}`]));
  await h.clock.advance(100);
  expect(answers).toEqual({ done: 0, overloaded: 4200 });
  expect(h.engine.figures().inFlightRequests).toBe(800);

  // A fifth of the requests is reserved for calls that end work.
  for (const { pid, token } of leased) settle(h.update({ dequeue: [{ queue: 'mail', pid, token }] }));
  await h.clock.advance(STALL_MS - 1000);
  expect(answers).toEqual({ done: 0, overloaded: 4200 });
  expect(h.engine.figures().inFlightRequests).toBe(900);
  expect(h.engine.health).toEqual({ kind: 'serving' });

  await h.clock.advance(2000);
  expect(answers).toEqual({ done: 900, overloaded: 4200 });
  expect(await h.clock.run(h.counts('mail'))).toEqual({ available: 100, leased: 0, delayed: 0 });
  await h.crash();
  expect(await h.clock.run(h.counts('new'))).toEqual({ available: 800, leased: 0, delayed: 0 });
});

test('a read waits until its result is durable, so that no crash can undo it', async () => {
  await using h = await engineHarness({ writeMs: 1, syncMs: 1 });
  await h.clock.run(h.enqueue('mail', ['a']));
  expect(await h.clock.run(h.counts('mail'), 1), 'durable tasks are shown at once').toMatchObject({ available: 1 });
  h.disk.stallWrite(STALL_MS);
  const enqueued = h.enqueue('mail', ['b']);
  let told: unknown;
  const counted = h.counts('mail').then((counts) => {
    told = counts;
  });
  await h.clock.advance(STALL_MS - 10);
  expect(told).toBeUndefined();
  await h.clock.run(Promise.all([enqueued, counted]));
  expect(told).toEqual({ available: 2, leased: 0, delayed: 0 });
});

test('a lease that is granted during a stall has its usual end', async () => {
  await using h = await engineHarness({ writeMs: 1, syncMs: 1 });
  await h.clock.run(h.enqueue('mail', ['a']));
  h.disk.stallWrite(STALL_MS);
  const stalled = h.lease('mail', { for: 10_000 });
  const [task] = await h.clock.run(stalled);
  expect(task?.until).toBeLessThan(h.clock.now());
  expect(pidsOf(await h.clock.run(h.lease('mail')))).toEqual(['a']);
});
