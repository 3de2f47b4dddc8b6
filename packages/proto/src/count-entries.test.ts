import { describe, expect, test } from 'vitest';
import { countEntries } from './count-entries.ts';
import { encodeToBuffer } from './encode-to-buffer.ts';
import { StreamRequest } from './gen/taskmaster/v1/stream.ts';

describe('countEntries', () => {
  const calls = (count: number) => Array.from({ length: count }, (_, id) => ({ id, call: undefined }));
  const three = encodeToBuffer(StreamRequest, { calls: calls(3) });
  const OTHER_FIELD = [0x12, 0x02, 0x0a, 0x00];

  test('counts the entries of the field, and not what is inside or beside them', () => {
    expect(countEntries(Buffer.from([...OTHER_FIELD, ...three, ...OTHER_FIELD]), 1, 10)).toBe(3);
    expect(countEntries(Buffer.alloc(0), 1, 10)).toBe(0);
  });

  test('stops at the first one too many', () => {
    const many = encodeToBuffer(StreamRequest, { calls: calls(1_000) });
    expect(countEntries(many, 1, 10)).toBe(11);
  });

  test('throws on a message cut short', () => {
    expect(() => countEntries(three.subarray(0, -1), 1, 10)).toThrow();
  });
});
