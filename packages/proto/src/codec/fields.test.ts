import { describe, expect, test } from 'vitest';
import { StreamRequest } from '../gen/taskmaster/v1/stream.ts';
import { BatchUpdateTasksRequest, UpdateTasksRequest } from '../gen/taskmaster/v1/tasks.ts';
import { readStreamEntries } from '../stream/stream-entries.ts';
import { encodeToBuffer } from './encode-to-buffer.ts';

const item = (field: number, content: Buffer): Buffer => Buffer.from([(field << 3) | 2, content.length, ...content]);
const task = item(1, Buffer.from('g#q'));
/** What stops a decoder early, makes it read on in another message, or is no field. */
const DAMAGE: Readonly<Record<string, Buffer>> = {
  'a zero': Buffer.from([0]),
  'a zero, and more behind it': Buffer.from([0, 0x08, 7]),
  'a field of the number 0': Buffer.from([0x02, 0]),
  'the end of a group': Buffer.from([0x7c]),
  'a group that another field ends': Buffer.from([0x7b, 0x74]),
  'a group without an end': Buffer.from([0x7b]),
  'the wire type 6': Buffer.from([0x7e]),
  'the wire type 7': Buffer.from([0x7f, 0]),
  'a tag beyond 32 bits': Buffer.from([0x8a, 0x80, 0x80, 0x80, 0x10, 0]),
  'a tag of ten bytes': Buffer.from([0x8a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0]),
  'a field that is longer than its message': Buffer.from([0x7a, 1]),
};

/** The depths at which an update is decoded: in an item, in the update, around it. */
const DEPTHS: Readonly<Record<string, (damage: Buffer) => unknown>> = {
  'an update': (damage) => UpdateTasksRequest.decode(Buffer.concat([item(2, task), damage])),
  'an update, in front': (damage) => UpdateTasksRequest.decode(Buffer.concat([damage, item(2, task)])),
  'an item': (damage) => UpdateTasksRequest.decode(item(2, Buffer.concat([task, damage]))),
  // Behind the item there is more, so that a field which is too long stays within the message.
  'an item before others': (damage) =>
    UpdateTasksRequest.decode(Buffer.concat([item(2, Buffer.concat([task, damage])), item(2, task), item(2, task)])),
  'a policy': (damage) => UpdateTasksRequest.decode(item(1, item(6, damage))),
  'a header': (damage) => UpdateTasksRequest.decode(item(1, item(8, damage))),
  'a batch': (damage) => BatchUpdateTasksRequest.decode(Buffer.concat([item(1, item(2, task)), damage])),
  'an update of a batch': (damage) => BatchUpdateTasksRequest.decode(item(1, Buffer.concat([item(2, task), damage]))),
  'a message of a stream': (damage) => StreamRequest.decode(Buffer.concat([item(1, Buffer.from([8, 1])), damage])),
  'a call of a stream': (damage) => StreamRequest.decode(item(1, Buffer.concat([Buffer.from([8, 1]), damage]))),
  'an update of a stream': (damage) => StreamRequest.decode(item(1, item(2, Buffer.concat([item(2, task), damage])))),
  'the calls of a stream that stay encoded': (damage) =>
    readStreamEntries(Buffer.concat([item(1, Buffer.from([8, 1])), damage])),
  'a call that stays encoded': (damage) => readStreamEntries(item(1, Buffer.concat([Buffer.from([8, 1]), damage]))),
};

describe.each(Object.entries(DEPTHS))('%s with damage is refused', (_where, decode) => {
  test.each(Object.entries(DAMAGE))('%s', (_what, damage) => {
    expect(() => decode(damage)).toThrow();
  });
});

test('fields that a later release may add are skipped', () => {
  const added = Buffer.from([
    0x78, 1, 0x7a, 2, 1, 2, 0x7d, 1, 2, 3, 4, 0x79, 1, 2, 3, 4, 5, 6, 7, 8, 0x7b, 0x08, 1, 0x7c,
  ]);
  const [first, ...others] = UpdateTasksRequest.decode(
    Buffer.concat([added, item(2, Buffer.concat([added, task])), added]),
  ).dequeue;
  expect(first?.queue).toBe('g#q');
  expect(others).toEqual([]);
  const far = Buffer.from([0xf8, 0xff, 0xff, 0xff, 0x0f, 1]);
  expect(UpdateTasksRequest.decode(far)).toEqual(UpdateTasksRequest.decode(Buffer.alloc(0)));
});

test('a message without damage is the same after encoding and decoding', () => {
  const calls = [{ id: 2 ** 40, call: { $case: 'cancel' as const, value: {} } }];
  expect(StreamRequest.decode(encodeToBuffer(StreamRequest, { calls }))).toEqual({ calls });
});
