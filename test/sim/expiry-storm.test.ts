import { engineHarness } from '@taskmaster/engine/testing';
import { expect, test } from 'vitest';

const TASKS = 100_000;
const AT_ONCE = 1000;
const LEASE_MS = 10_000;

test('100,000 leases that expire together: the tasks are available within a second after the first request', async () => {
  const config = { checkpointIntervalMs: 60_000, maxRefillTasks: 5000 };
  await using h = await engineHarness({ writeMs: 1, syncMs: 1, readMs: 0.2, config });
  const pids = Array.from({ length: TASKS }, (_, i) => `${1_000_000 + i}`);
  for (let at = 0; at < TASKS; at += AT_ONCE) {
    const update = { enqueue: pids.slice(at, at + AT_ONCE).map((pid) => ({ queue: 'mail', pid })) };
    await h.clock.run(h.update(update));
  }
  const leases = Array.from({ length: TASKS / AT_ONCE }, () => h.lease('mail', { max: AT_ONCE, for: LEASE_MS }));
  await h.clock.run(Promise.all(leases));
  await h.clock.advance(LEASE_MS);

  // The first request is served as soon as some tasks are available, the others soon after.
  const wantedAt = h.clock.now();
  const waiting = h.lease('mail', { max: AT_ONCE, wait: 60_000 });
  const last = h.lease('mail', { max: AT_ONCE, wait: 60_000 });
  expect(await h.clock.run(waiting)).toHaveLength(AT_ONCE);
  expect(await h.clock.run(last)).toHaveLength(AT_ONCE);
  expect(await h.clock.run(h.counts('mail'))).toMatchObject({ available: TASKS - 2 * AT_ONCE, leased: 2 * AT_ONCE });
  const leased = await h.clock.run(h.lease('mail', { max: 10 * AT_ONCE }));
  expect(h.clock.now() - wantedAt).toBeLessThanOrEqual(1000);
  expect(leased.map(({ pid }) => pid)).toEqual(pids.slice(2 * AT_ONCE, 12 * AT_ONCE));
  expect(leased.every(({ attempt }) => attempt === 2)).toBe(true);
  expect(h.engine.figures().leasesExpired).toBe(TASKS);
}, 120_000);

test('expired leases of queues without requests are not searched for', async () => {
  await using h = await engineHarness();
  await h.enqueue('mail', ['a', 'b']);
  await h.lease('mail', { max: 2, for: 1000 });
  const { atoms } = h.engine.figures();
  await h.clock.advance(50_000);
  expect(h.engine.figures()).toMatchObject({ atoms, leasesExpired: 0 });
  expect(await h.counts('mail')).toEqual({ available: 2, leased: 0, delayed: 0 });
});
