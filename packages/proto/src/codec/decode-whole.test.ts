import { describe, expect, test } from 'vitest';
import { DeleteQueueRequest } from '../gen/taskmaster/v1/queues.ts';
import { decodeWhole } from './decode-whole.ts';
import { encodeToBuffer } from './encode-to-buffer.ts';

describe('decodeWhole', () => {
  const whole = encodeToBuffer(DeleteQueueRequest, { queue: 'mail' });

  test('reads a message', () => {
    expect(decodeWhole(DeleteQueueRequest, whole)).toEqual({ queue: 'mail' });
  });

  test.each([
    ['a zero tag behind the message', Buffer.concat([whole, Buffer.from([0, 1, 2])])],
    ['an end-group tag before the message', Buffer.concat([Buffer.from([0x0c]), whole])],
    ['a message cut short', whole.subarray(0, 3)],
    ['a length beyond the end', Buffer.from([0x0a, 0x7f, 0x61])],
  ])('throws on %s', (_what, bytes) => {
    expect(() => decodeWhole(DeleteQueueRequest, bytes)).toThrow();
  });
});
