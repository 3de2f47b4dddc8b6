import { describe, expect, test } from 'vitest';
import { encodeToBuffer } from '../codec/encode-to-buffer.ts';
import { StreamRequest } from '../gen/taskmaster/v1/stream.ts';
import { BatchUpdateTasksRequest } from '../gen/taskmaster/v1/tasks.ts';
import { hasMoreEntries } from './entries.ts';

describe('the entries of a message', () => {
  const calls = (count: number) => Array.from({ length: count }, (_, id) => ({ id, call: undefined }));
  const three = encodeToBuffer(StreamRequest, { calls: calls(3) });
  const OTHER_FIELD = [0x12, 0x02, 0x0a, 0x00];

  test('are those of the field, without other fields and nested ones', () => {
    const message = Buffer.from([...OTHER_FIELD, ...three, ...OTHER_FIELD]);
    expect(hasMoreEntries(message, { 1: 'each' }, 3)).toBe(false);
    expect(hasMoreEntries(message, { 1: 'each' }, 2)).toBe(true);
    expect(hasMoreEntries(Buffer.alloc(0), { 1: 'each' }, 0)).toBe(false);
  });

  test('can be inside the entries of another field, and are counted together', () => {
    const update = { enqueue: [], dequeue: [], renew: [], release: [], requestId: Buffer.alloc(0), parts: [] };
    const item = { queue: '', pid: Buffer.alloc(0), leaseToken: 0 };
    const dequeue = Array.from({ length: 10 }, () => ({ ...item, requeue: false }));
    const renew = Array.from({ length: 10 }, () => ({ ...item, leaseDurationMs: 0 }));
    const requests = [{ ...update, dequeue }, update, { ...update, renew }];
    const batch = encodeToBuffer(BatchUpdateTasksRequest, { requests });
    const items = { 1: { 1: 'each', 2: 'each', 3: 'each', 4: 'each' } } as const;
    expect(hasMoreEntries(batch, items, 20)).toBe(false);
    expect(hasMoreEntries(batch, items, 19)).toBe(true);
    expect(hasMoreEntries(batch, { 1: { 2: 'each' } }, 9)).toBe(true);
    expect(hasMoreEntries(batch, { 1: { 2: 'each' } }, 10)).toBe(false);
  });

  test('are not read beyond the first one above the limit', () => {
    const cutShort = encodeToBuffer(StreamRequest, { calls: calls(1_000) }).subarray(0, -1);
    expect(hasMoreEntries(cutShort, { 1: 'each' }, 10)).toBe(true);
    expect(() => hasMoreEntries(cutShort, { 1: 'each' }, 999)).toThrow();
  });

  test('throw if one is longer than the message that contains it', () => {
    const beyond = Buffer.from([0x0a, 0x02, 0x0a, 0x7f, 0x0a, 0x00, 0x0a, 0x00]);
    expect(() => hasMoreEntries(beyond, { 1: { 1: { 1: 'each' } } }, 0)).toThrow('cut short');
  });
});
