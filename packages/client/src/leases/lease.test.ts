import { describe, expect, test } from 'vitest';
import { ManualTiming } from '../testing/manual-timing.ts';
import { LeaseExpiredError, LeaseLostError, TimeLimitError } from '../values/errors.ts';
import { Lease } from './lease.ts';

function setUp(catchUp: (lease: Lease) => void = () => {}, timeLimitMs?: number) {
  const timing = new ManualTiming();
  const named = { queue: 'q', pid: Buffer.from('a'), token: 1, attempt: 1, headers: {} };
  const terms = { ...named, leaseDurationMs: 1_000, timeLimitMs, from: timing.now() };
  const lease: Lease = new Lease(terms, timing, () => catchUp(lease));
  return { timing, lease };
}

const lost = new LeaseLostError('taken', { reason: 'LEASE_LOST' });

describe('the signal', () => {
  test('is aborted when the lease has expired, with the reason', async () => {
    const { timing, lease } = setUp();
    const { signal } = lease;
    await timing.advance(999);
    expect(signal.aborted).toBe(false);
    await timing.advance(1);
    expect(signal.reason).toBeInstanceOf(LeaseExpiredError);
  });

  test('counts a renewal from the time when it was sent', async () => {
    const { timing, lease } = setUp();
    const { signal } = lease;
    await timing.advance(600);
    lease.renewed(timing.now() - 100, 1_000);
    await timing.advance(899);
    expect(signal.aborted).toBe(false);
    await timing.advance(1);
    expect(signal.aborted).toBe(true);
  });

  test('is aborted earlier if a renewal has made the lease shorter', async () => {
    const { timing, lease } = setUp();
    const { signal } = lease;
    await timing.advance(100);
    lease.renewed(timing.now(), 300);
    await timing.advance(299);
    expect(signal.aborted).toBe(false);
    await timing.advance(1);
    expect(signal.reason).toBeInstanceOf(LeaseExpiredError);
  });

  test('uses the earlier end if two renewals are reported in another order than they were sent', async () => {
    const { timing, lease } = setUp();
    await timing.advance(500);
    lease.renewed(timing.now(), 1_000);
    lease.renewed(timing.now() - 200, 1_000);
    expect(lease.endsAt).toBe(timing.now() + 800);
  });

  test('after a blocked event loop, takes the renewals made meanwhile into account first', async () => {
    const { timing, lease } = setUp((one) => one.renewed(timing.now() - 200, 1_000));
    const { signal } = lease;
    timing.block(60_000);
    await timing.advance(0);
    expect(signal.aborted).toBe(false);
    expect(lease.endsAt).toBe(timing.now() + 800);
  });

  test('of a settled lease is never aborted', async () => {
    const { timing, lease } = setUp();
    const { signal } = lease;
    lease.beginSettling();
    lease.settle('completed');
    await timing.advance(5_000);
    expect(signal.aborted).toBe(false);
    expect(timing.timers).toBe(0);
  });

  test('of a lost lease is aborted, also if it is read afterwards', () => {
    const { lease } = setUp();
    lease.lose(lost);
    expect(lease.signal.reason).toBe(lost);
  });
});

describe('ending a lease', () => {
  test('is sent by a worker that is slightly late: the node decides', async () => {
    const { timing, lease } = setUp();
    await timing.advance(2_000);
    expect(() => lease.beginSettling()).not.toThrow();
  });

  test('of a lost lease fails without being sent', () => {
    const { lease } = setUp();
    lease.lose(lost);
    expect(() => lease.beginSettling()).toThrow(lost);
  });

  test('twice is a TypeError', () => {
    const { lease } = setUp();
    lease.beginSettling();
    expect(() => lease.beginSettling()).toThrow(/is already being completed or released/);
    lease.settle('released');
    expect(() => lease.beginSettling()).toThrow(/was released before/);
  });

  test('that failed without an effect can be tried again', () => {
    const { lease } = setUp();
    lease.beginSettling();
    lease.stopSettling();
    expect(lease.isHeld).toBe(true);
  });

  test('counts more than a loss that is reported meanwhile', () => {
    const { lease } = setUp();
    lease.beginSettling();
    lease.lose(lost);
    lease.settle('completed');
    expect(lease.lostTo).toBeUndefined();
  });

  test('that failed leaves the lease lost if a loss was reported meanwhile', () => {
    const { lease } = setUp();
    lease.beginSettling();
    lease.lose(lost);
    lease.stopSettling();
    expect(lease.lostTo).toBe(lost);
  });
});

test('a listener is told once that the lease need not be renewed any more', () => {
  const { lease } = setUp();
  const heard: string[] = [];
  lease.onEnd(() => heard.push('end'));
  lease.onLost((error) => heard.push(error.reason));
  lease.lose(lost);
  lease.lose(lost);
  lease.letGo();
  expect(heard).toEqual(['end', 'LEASE_LOST']);
});

describe('a time limit', () => {
  const limited = (limitMs: number) => setUp(() => {}, limitMs);

  test('ends the lease and aborts the signal, whatever renewals say', async () => {
    const { timing, lease } = limited(2_500);
    const { signal } = lease;
    for (let renewals = 0; renewals < 4; renewals++) {
      await timing.advance(600);
      lease.renewed(timing.now(), 1_000);
    }
    expect([lease.endsAt - timing.now(), signal.aborted]).toEqual([100, false]);
    await timing.advance(100);
    expect(signal.reason).toBeInstanceOf(TimeLimitError);
    expect(lease.overTime).toBe(signal.reason);
    expect(signal.reason).toMatchObject({ reason: 'TIME_LIMIT_EXCEEDED', timeLimitMs: 2_500 });
  });

  test('is not the reason of a lease that ends before it', async () => {
    const { timing, lease } = limited(2_500);
    const { signal } = lease;
    await timing.advance(5_000);
    expect(signal.reason).toBeInstanceOf(LeaseExpiredError);
    expect(lease.overTime).toBeUndefined();
  });

  test('is not the reason of a lost or completed task', async () => {
    const [first, second] = [limited(500), limited(500)];
    first.lease.lose(lost);
    second.lease.settle('completed');
    for (const { timing, lease } of [first, second]) {
      await timing.advance(500);
      expect(lease.overTime).toBeUndefined();
    }
    expect([first.lease.signal.reason, second.lease.signal.aborted]).toEqual([lost, false]);
  });

  test('is known without a signal, too', async () => {
    const { timing, lease } = limited(500);
    timing.block(500);
    expect(lease.overTime).toBeInstanceOf(TimeLimitError);
    const { signal } = lease;
    await timing.advance(0);
    expect(signal.reason).toBe(lease.overTime);
  });
});
