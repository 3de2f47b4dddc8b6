import { type EngineHarness, engineHarness, pidsOf, VirtualClock } from '@taskmaster/engine/testing';
import { describe, expect, test } from 'vitest';

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
/** The clock approaches the system clock by a thousandth of the time that passes: in ten seconds by less than this, in ms. */
const SLACK_MS = 20;
const steps = [HOUR_MS, -HOUR_MS];

/** Reboots the machine. Its clock may be set before or meanwhile. */
async function reboot(h: EngineHarness): Promise<void> {
  h.disk.crash();
  h.clock = h.clock.reboot();
  await h.open();
}

const enqueueFifo = async (h: EngineHarness): Promise<string> =>
  (await h.update({ enqueue: [{ queue: 'fifo' }] })).enqueued[0]?.pid ?? '';

describe.each(steps)('the system clock set by %i ms', (stepMs) => {
  test('at run time changes a lease, a delay and a wait by no more than a thousandth', async () => {
    await using h = await engineHarness();
    await h.enqueue('mail', ['a']);
    await h.update({ enqueue: [{ queue: 'later', pid: 'b', delay: 10_000 }] });
    await h.lease('mail', { for: 10_000 });
    const waiting = h.lease('mail', { wait: 60_000 });
    h.clock.stepWall(stepMs);
    await h.clock.advance(10_000 - SLACK_MS);
    expect(await h.counts('mail')).toEqual({ available: 0, leased: 1, delayed: 0 });
    expect(await h.counts('later')).toEqual({ available: 0, leased: 0, delayed: 1 });
    await h.clock.advance(2 * SLACK_MS);
    expect(pidsOf(await waiting)).toEqual(['a']);
    expect(pidsOf(await h.lease('later'))).toEqual(['b']);
  });

  test('before a restart within the same boot changes no more, even with several crashes', async () => {
    await using h = await engineHarness();
    await h.enqueue('mail', ['a']);
    const [first] = await h.lease('mail', { for: 10_000 });
    for (let crash = 1; crash <= 9; crash++) {
      h.clock.stepWall(crash % 2 === 0 ? -stepMs : stepMs);
      await h.clock.advance(1000);
      await h.crash();
      expect(await h.lease('mail'), `leased twice after ${crash} s`).toEqual([]);
    }
    await h.clock.advance(1000 - SLACK_MS);
    expect(await h.lease('mail')).toEqual([]);
    await h.clock.advance(2 * SLACK_MS);
    const [second] = await h.lease('mail');
    expect(second?.token).toBeGreaterThan(first?.token ?? 0);
  });

  test('at run time and before restarts keeps the FIFO order', async () => {
    await using h = await engineHarness();
    const pids: string[] = [];
    for (let round = 0; round < 6; round++) {
      pids.push(await enqueueFifo(h), await enqueueFifo(h));
      h.clock.stepWall(round % 2 === 0 ? stepMs : -stepMs);
      await h.clock.advance(round * 100);
      if (round % 3 === 1) await h.crash();
      if (round % 3 === 2) await reboot(h);
    }
    expect(pids).toEqual(pids.toSorted());
    expect(new Set(pids).size).toBe(pids.length);
    expect(pidsOf(await h.lease('fifo', { max: 100 }))).toEqual(pids);
  });

  test('before a reboot never makes time go back: no task is leased twice, tokens grow', async () => {
    await using h = await engineHarness();
    await h.enqueue('mail', ['a']);
    let token = 0;
    let heldUntil = 0;
    // An earlier boot may have ended the lease already, at an instant later than the mark at which the next boot continues.
    let latest = 0;
    for (let boot = 0; boot < 8; boot++) {
      latest = Math.max(latest, h.clock.now());
      const [task] = await h.lease('mail', { for: 5000 });
      if (task) {
        expect(latest).toBeGreaterThanOrEqual(heldUntil);
        expect(task.token).toBeGreaterThan(token);
        token = task.token;
        heldUntil = task.until;
      }
      const before = h.clock.now();
      h.clock.stepWall(boot % 2 === 0 ? stepMs : -stepMs);
      await h.clock.advance(1000);
      latest = Math.max(latest, h.clock.now());
      await reboot(h);
      // At most the time since the last mark is lost.
      expect(h.clock.now()).toBeGreaterThanOrEqual(before);
    }
  });
});

test('a reboot with the clock an hour back keeps leases; they end after their remaining time', async () => {
  await using h = await engineHarness();
  await h.enqueue('mail', ['a']);
  const [first] = await h.lease('mail', { for: 10_000 });
  await h.clock.advance(4000);
  h.clock.stepWall(-HOUR_MS);
  await reboot(h);
  expect(await h.lease('mail')).toEqual([]);
  await h.clock.advance(10_000);
  const [second] = await h.lease('mail');
  expect(second).toMatchObject({ pid: 'a', attempt: 2 });
  expect(second?.token).toBeGreaterThan(first?.token ?? 0);
});

test('a reboot right after the first lease of a boot finds the stored time', async () => {
  await using h = await engineHarness();
  await h.enqueue('mail', ['a']);
  h.clock.stepWall(HOUR_MS);
  await reboot(h);
  // The clock is now an hour ahead. The lease ends by this clock, which the next boot must remember.
  const [task] = await h.lease('mail', { for: 10_000 });
  h.clock.stepWall(-HOUR_MS);
  await reboot(h);
  expect(h.clock.now()).toBeGreaterThan((task?.until ?? 0) - 10_001);
  expect(await h.lease('mail')).toEqual([]);
  await h.clock.advance(10_000 + SLACK_MS);
  expect(pidsOf(await h.lease('mail'))).toEqual(['a']);
});

describe.each([120_000, -120_000])('a system clock that was wrong by %i ms at the first start', (wrongMs) => {
  test('is right after the time that the correction takes, across crashes', async () => {
    // A hundredfold correction, so that the test is short.
    const clock = new VirtualClock({ wallAheadMs: wrongMs, correction: 1 / 10 });
    await using h = await engineHarness({ clock });
    const pids = [await enqueueFifo(h)];
    h.clock.stepWall(-wrongMs);
    let before = h.clock.now();
    // The correction takes 20 minutes. A crash may lose six seconds of it, which were not on disk yet.
    for (let minute = 1; minute <= 24; minute++) {
      await h.clock.advance(MINUTE_MS);
      if (minute % 5 === 0) await h.crash();
      if (minute % 3 === 0) pids.push(await enqueueFifo(h));
      const passed = h.clock.now() - before;
      expect(Math.abs(passed - MINUTE_MS), `in minute ${minute}`).toBeLessThanOrEqual(2 * (MINUTE_MS / 10));
      expect(passed).toBeGreaterThan(0);
      before = h.clock.now();
    }
    expect(Math.abs(h.clock.now() - h.clock.wall())).toBeLessThanOrEqual(1);
    // An instant that a user gives is an instant of the system clock again.
    await h.update({ enqueue: [{ queue: 'later', pid: 'b', runAt: h.clock.wall() + 5_000 }] });
    await h.clock.advance(4_990);
    expect(await h.lease('later')).toEqual([]);
    await h.clock.advance(20);
    expect(pidsOf(await h.lease('later'))).toEqual(['b']);
    pids.push(await enqueueFifo(h));
    expect(pids).toEqual(pids.toSorted());
  });
});
