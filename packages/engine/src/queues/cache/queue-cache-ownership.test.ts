import { expect, test } from 'vitest';
import type { Instant, LeaseToken, Pid } from '../../domain/ids.ts';
import { AVAILABLE, type TaskState } from '../../domain/task.ts';
import { QueueCache } from './queue-cache.ts';

const stateOf = (dataBytes: number): TaskState => ({
  enqueuedAt: 1 as Instant,
  dueAt: 1 as Instant,
  dataBytes,
  headerBytes: 0,
  attempts: 0,
  token: 0 as LeaseToken,
  retry: undefined,
  visibility: AVAILABLE,
  history: undefined,
});

test('a cached payload does not keep its message in memory', () => {
  const message = Buffer.alloc(64 * 1024, 'x');
  const cache = new QueueCache(undefined);
  cache.putReady('a' as Pid, { state: stateOf(100), data: message.subarray(10, 110) });
  const cached = cache.ready('a' as Pid)?.data;
  expect(Buffer.from(cached ?? []).toString()).toBe('x'.repeat(100));
  expect(cached?.buffer.byteLength).toBeLessThanOrEqual(256);
});

test('a slab is counted as long as one payload in it is kept', () => {
  const cache = new QueueCache(undefined);
  const pids = Array.from({ length: 1000 }, (_, i) => String(i).padStart(4, '0') as Pid);
  for (const pid of pids) {
    const pooled = Buffer.allocUnsafe(100).fill('x'); // As small messages arrive.
    cache.putReady(pid, { state: stateOf(100), data: pooled });
  }
  const all = cache.bytes;
  for (const [i, pid] of pids.entries()) if (i % 100 > 0) cache.removeReady(pid);
  const kept = new Set(pids.map((pid) => cache.ready(pid)?.data?.buffer).filter((buffer) => buffer !== undefined));
  const bytes = [...kept].reduce((sum, { byteLength }) => sum + byteLength, 0);
  expect(bytes).toBeGreaterThan(10_000);
  expect(cache.bytes).toBeGreaterThan(bytes);
  expect(cache.bytes).toBeLessThan(all);
  cache.shed(cache.bytes);
  expect(cache.bytes).toBe(0);
});
