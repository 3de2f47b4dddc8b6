import { describe, expect, test } from 'vitest';
import { encodeToBuffer } from '../codec/encode-to-buffer.ts';
import { StreamRequest, StreamResponse } from '../gen/taskmaster/v1/stream.ts';
import { LeaseTasksRequest, LeaseTasksResponse, UpdateTasksRequest } from '../gen/taskmaster/v1/tasks.ts';
import { CallField, encodeStreamEntries, ResultField, readStreamEntries } from './stream-entries.ts';

describe('entries of a stream', () => {
  test('equal the output of the generated code for all lengths of ids and messages', () => {
    const calls = [0, 1, 127, 128, 2 ** 31, 2 ** 32 + 5, Number.MAX_SAFE_INTEGER].flatMap((id) =>
      [0, 1, 120, 127, 128, 16_384, 100_000].map((bytes) => ({ id, bytes })),
    );
    const message = encodeStreamEntries(
      calls.map(({ id, bytes }) => {
        const update = { ...UpdateTasksRequest.decode(new Uint8Array(0)), requestId: Buffer.alloc(bytes, 'x') };
        return { id, field: CallField.update, bytes: encodeToBuffer(UpdateTasksRequest, update) };
      }),
    );
    const read = StreamRequest.decode(message).calls.map(({ id, call }) => ({
      id,
      bytes: call?.$case === 'update' ? call.value.requestId.length : undefined,
    }));
    expect(read).toEqual(calls);
  });

  test('of unknown kinds are read, too', () => {
    const lease = { ...LeaseTasksRequest.decode(new Uint8Array(0)), queues: ['a#b'] };
    const request = encodeStreamEntries([
      { id: 1, field: CallField.lease, bytes: encodeToBuffer(LeaseTasksRequest, lease) },
      { id: 2, field: CallField.cancel, bytes: new Uint8Array(0) },
    ]);
    expect(StreamRequest.decode(request).calls).toMatchObject([
      { id: 1, call: { $case: 'lease', value: { queues: ['a#b'] } } },
      { id: 2, call: { $case: 'cancel' } },
    ]);
    const reply = encodeToBuffer(LeaseTasksResponse, { tasks: [], moreQueues: [] });
    const response = encodeStreamEntries([{ id: 3, field: ResultField.lease, bytes: reply }]);
    expect(StreamResponse.decode(response).results).toMatchObject([{ id: 3, result: { $case: 'lease' } }]);
    expect(encodeStreamEntries([])).toHaveLength(0);
  });

  test('are the same after writing and reading, with the number of the field that they contain', () => {
    const update = { ...UpdateTasksRequest.decode(new Uint8Array(0)), requestId: Buffer.from('r') };
    const lease = { ...LeaseTasksRequest.decode(new Uint8Array(0)), queues: ['a#b'] };
    const calls = [
      { id: 7, call: { $case: 'update' as const, value: update } },
      { id: 2 ** 40, call: { $case: 'lease' as const, value: lease } },
      { id: 9, call: { $case: 'cancel' as const, value: {} } },
    ];
    const nothing = { id: 10, call: undefined };
    const read = readStreamEntries(encodeToBuffer(StreamRequest, { calls: [...calls, nothing] }));
    expect(read.map(({ id, field }) => [id, field])).toEqual([
      [7, CallField.update],
      [2 ** 40, CallField.lease],
      [9, CallField.cancel],
      [10, 0],
    ]);
    expect(encodeStreamEntries(read.slice(0, 3))).toEqual(encodeToBuffer(StreamRequest, { calls }));
  });

  test('of results are read like those of calls', () => {
    const results = [{ id: 3, result: { $case: 'lease' as const, value: { tasks: [], moreQueues: [] } } }];
    const read = readStreamEntries(encodeToBuffer(StreamResponse, { results }));
    expect(read).toEqual([{ id: 3, field: ResultField.lease, bytes: Buffer.alloc(0) }]);
  });

  test.each([
    ['is longer than its message', [0x0a, 0x7f]],
    ['has a field that is longer than it', [0x0a, 0x02, 0x12, 0x05, 0x00, 0x00]],
    ['has an id beyond 2^53', [0x0a, 0x0a, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]],
  ])('cannot be read if one %s', (_what, message) => {
    expect(() => readStreamEntries(Buffer.from(message))).toThrow();
  });
});
