import { expect, test } from 'vitest';
import type { Instant, LeaseToken, Pid } from '../../domain/ids.ts';
import { AVAILABLE } from '../../domain/task.ts';
import { QueueCache } from './queue-cache.ts';

test('a cached payload does not keep the message it came in', () => {
  const message = Buffer.alloc(64 * 1024, 'x');
  const state = {
    enqueuedAt: 1 as Instant,
    dataBytes: 100,
    attempts: 0,
    token: 0 as LeaseToken,
    retry: undefined,
    visibility: AVAILABLE,
  };
  const cache = new QueueCache(undefined);
  cache.putReady('a' as Pid, { state, data: message.subarray(10, 110) });
  const cached = cache.ready('a' as Pid)?.data;
  expect(Buffer.from(cached ?? []).toString()).toBe('x'.repeat(100));
  expect(cached?.buffer.byteLength).toBeLessThanOrEqual(Buffer.poolSize);
});
