import { describe, expect, test } from 'vitest';
import { encodeToBuffer } from '../encode-to-buffer.ts';
import { StreamRequest, StreamResponse } from '../gen/taskmaster/v1/stream.ts';
import { LeaseTasksRequest, LeaseTasksResponse, UpdateTasksRequest } from '../gen/taskmaster/v1/tasks.ts';
import { CallField, encodeStreamEntries, ResultField } from './stream-entries.ts';

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
    const reply = encodeToBuffer(LeaseTasksResponse, { tasks: [] });
    const response = encodeStreamEntries([{ id: 3, field: ResultField.lease, bytes: reply }]);
    expect(StreamResponse.decode(response).results).toMatchObject([{ id: 3, result: { $case: 'lease' } }]);
    expect(encodeStreamEntries([])).toHaveLength(0);
  });
});
