import { describe, expect, test } from 'vitest';
import { type PrincipalLimits, PrincipalUsage } from './principal-usage.ts';

function usageWith(limits: PrincipalLimits) {
  const clock = { now: 0 };
  const usage = new PrincipalUsage('shop', limits, () => clock.now);
  /** Undefined: it was not refused. */
  const refusalOf = (ask: () => void): object | undefined => {
    try {
      ask();
      return undefined;
    } catch (thrown) {
      return thrown as object;
    }
  };
  return { clock, usage, refusalOf };
}

const refused = (quota: string, limit: number) => ({
  reason: 'QUOTA_EXCEEDED',
  metadata: { quota, limit: String(limit), principal: 'shop' },
});

describe('a principal', () => {
  test('has connections up to its quota, each counted once', () => {
    const { usage, refusalOf } = usageWith({ connections: 2 });
    for (const connection of ['a', 'a', 'b']) usage.connect(connection);
    expect(refusalOf(() => usage.connect('c'))).toMatchObject(refused('connections', 2));
    usage.disconnected('a');
    expect(refusalOf(() => usage.connect('c'))).toBeUndefined();
    expect([usage.used('connections'), usage.refused('connections')]).toEqual([2, 1]);
  });

  test('may make the requests of a second at once, and then as many as its quota', () => {
    const { usage, refusalOf, clock } = usageWith({ requestsPerSecond: 4 });
    for (let at = 1; at <= 4; at++) usage.request();
    expect(refusalOf(() => usage.request())).toMatchObject({ ...refused('requestsPerSecond', 4), retryDelayMs: 250 });
    clock.now += 250;
    usage.request();
    expect(refusalOf(() => usage.request())).toBeDefined();
    clock.now += 60_000;
    for (let at = 1; at <= 4; at++) usage.request();
    expect(refusalOf(() => usage.request())).toBeDefined();
  });

  test('pays for a batch later if it is larger than what is left', () => {
    const { usage, refusalOf, clock } = usageWith({ requestsPerSecond: 1 });
    usage.request();
    usage.alsoRequests(2);
    clock.now += 2_000;
    expect(refusalOf(() => usage.request())).toBeDefined();
    clock.now += 1_000;
    expect(refusalOf(() => usage.request())).toBeUndefined();
  });

  test('has bytes in flight up to its quota, but always one request', () => {
    const { usage, refusalOf } = usageWith({ bytesInFlight: 100 });
    usage.begin(150);
    expect(refusalOf(() => usage.begin(1))).toMatchObject(refused('bytesInFlight', 100));
    usage.end(150);
    usage.begin(60);
    usage.begin(40);
    expect(usage.used('bytesInFlight')).toBe(100);
  });

  test('has waiting calls up to its quota', () => {
    const { usage, refusalOf } = usageWith({ waiters: 1 });
    usage.beginWaiting();
    expect(refusalOf(() => usage.beginWaiting())).toMatchObject(refused('waiters', 1));
    usage.endWaiting();
    expect(refusalOf(() => usage.beginWaiting())).toBeUndefined();
  });

  test('without a quota is not limited', () => {
    const { usage } = usageWith({});
    for (let at = 1; at <= 1_000; at++) {
      usage.connect(String(at));
      usage.begin(1_000_000);
      usage.beginWaiting();
    }
  });

  test('keeps what it uses when its quota changes', () => {
    const { usage, refusalOf } = usageWith({ waiters: 5 });
    for (let at = 1; at <= 3; at++) usage.beginWaiting();
    usage.limits = { waiters: 2 };
    usage.endWaiting();
    expect(refusalOf(() => usage.beginWaiting())).toBeDefined();
    usage.endWaiting();
    expect(refusalOf(() => usage.beginWaiting())).toBeUndefined();
  });
});
