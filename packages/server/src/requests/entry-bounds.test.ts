import {
  BatchLeaseTasksRequest,
  BatchUpdateTasksRequest,
  encodeToBuffer,
  entryBounds,
  GetQueueStatsRequest,
  GetTasksRequest,
  LeaseTasksRequest,
  limits,
  PeekTasksRequest,
  type StreamCall,
  StreamRequest,
  UpdateTasksRequest,
} from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { aDequeue, aGet, aLease, anEnqueue, anUpdate, aPeek, aRelease, aRenew } from '../grpc/testing/requests.ts';
import { checkEntries } from './codec.ts';

const times = <T>(count: number, value: T): T[] => new Array<T>(count).fill(value);
const emptyEnqueue = anEnqueue({ queue: '', pid: Buffer.alloc(0), data: Buffer.alloc(0) });

/** An update with this many items of all kinds. */
function mixed(count: number): UpdateTasksRequest {
  const part = Math.floor(count / 4);
  return anUpdate({
    enqueue: times(count - 3 * part, emptyEnqueue),
    dequeue: times(part, aDequeue({ queue: '', pid: Buffer.alloc(0) })),
    renew: times(part, aRenew({ queue: '', pid: Buffer.alloc(0) })),
    release: times(part, aRelease({ queue: '', pid: Buffer.alloc(0) })),
  });
}

/** A request whose field `outer` has a message with this many empty headers. */
function withEmptyHeaders(outer: number, headers: number, count: number): Buffer {
  const tag = (field: number): number => (field << 3) | 2;
  const bytes = Buffer.alloc(2 * count, Buffer.from([tag(headers), 0]));
  const { length } = bytes;
  const varint = [(length & 0x7f) | 0x80, ((length >> 7) & 0x7f) | 0x80, length >> 14];
  return Buffer.concat([Buffer.from([tag(outer), ...varint]), bytes]);
}

const update = (items: number): StreamCall => ({ id: 1, call: { $case: 'update', value: mixed(items) } });
const lease = (queues: number): StreamCall => ({
  id: 1,
  call: { $case: 'lease', value: aLease({ queues: times(queues, '') }) },
});
const batchOf = (counts: readonly number[]): Buffer =>
  encodeToBuffer(BatchUpdateTasksRequest, { requests: counts.map(mixed) });

describe('a request with too many entries is refused before it is decoded', () => {
  test.each([
    ['items of an update', 'update', limits.updateItems, (n: number) => encodeToBuffer(UpdateTasksRequest, mixed(n))],
    ['headers of tasks', 'update', limits.headers * limits.updateItems, (n: number) => withEmptyHeaders(1, 8, n)],
    ['headers of a schedule', 'schedule', limits.headers, (n: number) => withEmptyHeaders(2, 10, n)],
    [
      'queues of a lease',
      'lease',
      limits.leaseQueues,
      (n: number) => encodeToBuffer(LeaseTasksRequest, aLease({ queues: times(n, '') })),
    ],
    ['updates of a batch', 'batchUpdate', limits.batchRequests, (n: number) => batchOf(times(n, 0))],
    ['items of a batch', 'batchUpdate', limits.batchItems, (n: number) => batchOf([n - 9_000, 9_000])],
    [
      'leases of a batch',
      'batchLease',
      limits.batchRequests,
      (n: number) => encodeToBuffer(BatchLeaseTasksRequest, { requests: times(n, aLease({ queues: [] })) }),
    ],
    [
      'queues of statistics',
      'stats',
      limits.listQueues,
      (n: number) => encodeToBuffer(GetQueueStatsRequest, { queues: times(n, ''), filter: undefined }),
    ],
    [
      'kinds of a peek',
      'peek',
      limits.leaseKinds,
      (n: number) => encodeToBuffer(PeekTasksRequest, aPeek({ kinds: { patterns: times(n, '') } })),
    ],
    [
      'tasks to get',
      'get',
      limits.peekTasks,
      (n: number) =>
        encodeToBuffer(GetTasksRequest, aGet({ pids: times(n - 400, Buffer.alloc(0)), keys: times(400, '') })),
    ],
    [
      'calls of a stream message',
      'stream',
      limits.streamCalls,
      (n: number) => encodeToBuffer(StreamRequest, { calls: times(n, { id: 1, call: undefined }) }),
    ],
    [
      'items and queues of a stream message',
      'stream',
      limits.streamItems,
      (n: number) => encodeToBuffer(StreamRequest, { calls: [update(n - 9_000), lease(4_000), update(5_000)] }),
    ],
  ] as const)('%s', (_what, method, most, encode) => {
    const bounds = entryBounds[method];
    expect(() => checkEntries(encode(most), bounds)).not.toThrow();
    expect(() => checkEntries(encode(most + 1), bounds)).toThrow(
      expect.objectContaining({ reason: 'TOO_MANY_ITEMS', metadata: expect.objectContaining({ limit: String(most) }) }),
    );
  });

  test('a damaged request is left to the decoder, which reports how', () => {
    const damaged = encodeToBuffer(UpdateTasksRequest, mixed(limits.updateItems)).subarray(0, -1);
    expect(() => checkEntries(damaged, entryBounds.update)).not.toThrow();
  });
});
