import { describe, expect, test } from 'vitest';
import type { Instant, LeaseToken, Pid } from '../../domain/ids.ts';
import { AVAILABLE } from '../../domain/task.ts';
import { QueueCache } from './queue-cache.ts';
import { type CacheOwner, TaskCache } from './task-cache.ts';

const MIB = 1024 * 1024;
const PAYLOAD_BYTES = 64 * 1024;

/** A queue that has only a cache. */
class FakeQueue implements CacheOwner {
  cache: QueueCache | undefined = new QueueCache(undefined);
  evictable = true;

  /** Puts available tasks of 64 KiB into the cache. */
  fill(tasks: number): this {
    const state = {
      enqueuedAt: 0 as Instant,
      dueAt: 0 as Instant,
      dataBytes: PAYLOAD_BYTES,
      headerBytes: 0,
      attempts: 0,
      token: 0 as LeaseToken,
      history: undefined,
    };
    for (let i = 0; i < tasks; i++) {
      const pid = String(this.tasks).padStart(4, '0') as Pid;
      const data = new Uint8Array(PAYLOAD_BYTES);
      this.cache?.putReady(pid, { state: { ...state, retry: undefined, visibility: AVAILABLE }, data });
    }
    return this;
  }

  get tasks(): number {
    return this.cache?.readyCount ?? 0;
  }

  dropCache(): void {
    this.cache = undefined;
  }
}

function touched(cache: TaskCache, tasks: number): FakeQueue {
  const queue = new FakeQueue().fill(tasks);
  cache.touch(queue);
  return queue;
}

describe('the cache of all queues', () => {
  test('stays within its budget', () => {
    const cache = new TaskCache(2 * MIB);
    const queues = Array.from({ length: 20 }, () => touched(cache, 4));
    const held = queues.reduce((sum, queue) => sum + (queue.cache?.bytes ?? 0), 0);
    expect(held).toBe(cache.bytes);
    expect(held).toBeLessThanOrEqual(2 * MIB);
    expect(held).toBeGreaterThan(1.5 * MIB);
  });

  test('sheds the tasks of the least recently used queue, from its tail', () => {
    const cache = new TaskCache(2 * MIB);
    const [old, used] = [touched(cache, 12), touched(cache, 12)];
    cache.touch(old);
    touched(cache, 12);
    expect(used.tasks).toBeLessThan(12);
    expect(used.tasks).toBeGreaterThan(0);
    expect(used.cache?.firstReady).toBe('0000');
    expect(old.tasks).toBe(12);
  });

  test('spares a short head if more recently used queues have longer ones', () => {
    const cache = new TaskCache(2 * MIB);
    const slow = touched(cache, 2);
    const busy = Array.from({ length: 3 }, () => touched(cache, 8));
    for (let round = 0; round < 20; round++) {
      for (const queue of busy) {
        queue.fill(4);
        cache.touch(queue);
      }
    }
    expect(cache.bytes).toBeLessThanOrEqual(2 * MIB);
    expect(slow.tasks).toBe(2);
  });

  test('forgets a queue that has shed everything', () => {
    const cache = new TaskCache(MIB);
    const old = touched(cache, 1);
    const others = Array.from({ length: 16 }, () => touched(cache, 1));
    expect(old.cache).toBeUndefined();
    expect(cache.bytes).toBe(others.reduce((sum, queue) => sum + (queue.cache?.bytes ?? 0), 0));
    expect(cache.bytes).toBeLessThanOrEqual(MIB);
  });

  test('spares a queue during a refill, until it is touched afterwards', () => {
    const cache = new TaskCache(MIB);
    const refilling = touched(cache, 10);
    refilling.evictable = false;
    const other = touched(cache, 10);
    expect([refilling.tasks, other.tasks < 10]).toEqual([10, true]);
    refilling.fill(10).evictable = true;
    cache.touch(refilling);
    expect(cache.bytes).toBeLessThanOrEqual(MIB);
  });

  test('forgets a queue that has ended, with its bytes', () => {
    const cache = new TaskCache(MIB);
    const queue = touched(cache, 4);
    cache.forget(queue);
    cache.forget(queue);
    expect(cache.bytes).toBe(0);
  });
});
