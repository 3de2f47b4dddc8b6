import { readFileSync } from 'node:fs';
import { fromBinary } from '@bufbuild/protobuf';
import { WireType } from '@bufbuild/protobuf/wire';
import { FieldDescriptorProto_Type, FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { encodeToBuffer, LeasedTask, LeaseTasksRequest, UpdateTasksRequest } from '@taskmaster/proto';
import { aDequeue, aLease, anEnqueue, anUpdate, aRelease, aRenew, aRetry, bytes } from '@taskmaster/server/testing';
import { describe, expect, test } from 'vitest';
import { readEntries, readLeased, readQueue, readUpdate, withNumbers, writeEntries } from './raw-codec.ts';

const update = (change: Parameters<typeof anUpdate>[0]) => encodeToBuffer(UpdateTasksRequest, anUpdate(change));

describe('the route of an update', () => {
  test.each([
    ['an enqueue', { enqueue: [anEnqueue({ queue: 'g#a' }), anEnqueue({ queue: 'g#b' })] }, 'g#a'],
    ['a dequeue', { dequeue: [aDequeue({ queue: 'g#c' })] }, 'g#c'],
    ['an enqueue with a policy that names a queue', { enqueue: [anEnqueue({ queue: 'g#a', retry: aRetry() })] }, 'g#a'],
    [
      'an item without a name before one with',
      { dequeue: [aDequeue({ queue: '' }), aDequeue({ queue: 'g#d' })] },
      'g#d',
    ],
    ['an enqueue with a key', { enqueue: [anEnqueue({ queue: 'g#a', key: 'h#k' })] }, 'g#a'],
    ['a publication', { enqueue: [anEnqueue({ queue: '', topic: 'g#t', key: 'h#k' })] }, 'g#t'],
    // Texts that look like messages, or like the name of a queue.
    ['a dequeue with a key', { dequeue: [aDequeue({ queue: 'g#a', key: 'order-17' })] }, 'g#a'],
    ['a cancellation', { dequeue: [aDequeue({ queue: 'g#a', key: 'h#k', cancelReason: '\n\x09' })] }, 'g#a'],
    ['a renewal with progress', { renew: [aRenew({ queue: 'g#a', progress: 'h#k' })] }, 'g#a'],
    ['a release with a key', { release: [aRelease({ queue: 'g#a', key: 'h#k', waiting: true })] }, 'g#a'],
    [
      'a release with an error',
      { release: [aRelease({ queue: 'g#a', error: { message: 'h#k', details: '\n\x09' } })] },
      'g#a',
    ],
    ['nothing', {}, undefined],
  ] as const)('by %s', (_what, change, queue) => {
    expect(readUpdate(update(change as Parameters<typeof anUpdate>[0])).queue).toBe(queue);
  });

  test.each(['Enqueue', 'Dequeue', 'Renew', 'Release'])(
    'reads only the messages of %s, and takes no other text for a queue',
    (name) => {
      const file = new URL('../../../proto/descriptor.binpb', import.meta.url);
      const types = fromBinary(FileDescriptorSetSchema, readFileSync(file)).file.flatMap(
        ({ messageType }) => messageType,
      );
      const list = types
        .find((type) => type.name === 'UpdateTasksRequest')
        ?.field.find(({ typeName }) => typeName === `.taskmaster.v1.${name}`);
      const fields = types.find((type) => type.name === name)?.field ?? [];
      const tag = (field = 0): number => (field << 3) | WireType.LengthDelimited;
      const damaged = Buffer.from([tag(1), 9]);
      const { STRING, BYTES, MESSAGE } = FieldDescriptorProto_Type;
      for (const { number, type, name: field } of fields.filter((of) => of.number !== 1)) {
        if (type !== STRING && type !== BYTES && type !== MESSAGE) continue;
        const item = Buffer.concat([Buffer.from([tag(1), 3]), bytes('g#a'), Buffer.from([tag(number), 2]), damaged]);
        const read = () => readUpdate(Buffer.concat([Buffer.from([tag(list?.number), item.length]), item])).queue;
        if (type === MESSAGE) expect(read, field).toThrow();
        else expect(read(), field).toBe(field === 'topic' ? damaged.toString() : 'g#a');
      }
      expect(fields.length).toBeGreaterThan(3);
    },
  );

  test('says whether it may be repeated', () => {
    expect(readUpdate(update({ requestId: bytes('id') })).hasRequestId).toBe(true);
    expect(readUpdate(update({})).hasRequestId).toBe(false);
  });

  test('detects numbers that only a decoder can check', () => {
    expect(readUpdate(update({ enqueue: [anEnqueue({ delayMs: -1 })] })).hasLongNumber).toBe(true);
    expect(readUpdate(update({ enqueue: [anEnqueue({ retry: aRetry({ backoffMaxMs: -1 }) })] })).hasLongNumber).toBe(
      true,
    );
    expect(readUpdate(update({ enqueue: [anEnqueue({ delayMs: 1e9 })] })).hasLongNumber).toBe(false);
  });

  test('counts the parts, which name no queue', () => {
    const part = { enqueues: 1, dequeues: 0, renewals: 0, releases: 0 };
    const route = readUpdate(update({ enqueue: [anEnqueue({ queue: 'g#a' }), anEnqueue()], parts: [part, part] }));
    expect(route).toMatchObject({ queue: 'g#a', parts: 2 });
    const asQueue = Buffer.concat([Buffer.from([0x32, 5, 0x0a, 3]), bytes('h#b'), update({ enqueue: [anEnqueue()] })]);
    expect(readUpdate(asQueue).queue).toBe('shop#mail');
  });

  test('refuses a damaged header, and takes no key for a queue', () => {
    const headers = { 'g#b': 'x' };
    expect(readUpdate(update({ enqueue: [anEnqueue({ queue: 'g#a', headers })] })).queue).toBe('g#a');
    expect(readUpdate(Buffer.from([0x0a, 6, 0x42, 4, 0x0a, 2, 0x67, 0x67])).queue).toBeUndefined();
    expect(() => readUpdate(Buffer.from([0x0a, 4, 0x42, 2, 0x0a, 9]))).toThrow();
  });

  test('refuses a damaged part', () => {
    expect(() => readUpdate(Buffer.from([0x32, 2, 0x0a, 9]))).toThrow();
  });

  test.each([1, 2, 5, 9])('refuses a message that is %i bytes too short', (less) => {
    const whole = update({ enqueue: [anEnqueue()] });
    expect(() => readUpdate(whole.subarray(0, whole.length - less))).toThrow();
  });
});

test('entries are the same after writing and reading', () => {
  const entries = [bytes('a'), bytes(''), bytes('x'.repeat(300))];
  expect(readEntries(writeEntries(entries)).map((entry) => Buffer.from(entry))).toEqual(entries);
});

test('numbers of a message are changed without decoding it', () => {
  const lease = encodeToBuffer(LeaseTasksRequest, aLease({ waitMs: 5_000, maxBytes: 0 }));
  expect(LeaseTasksRequest.decode(withNumbers(lease, { 5: 0, 7: 1234 }))).toMatchObject({ waitMs: 0, maxBytes: 1234 });
});

test('a task is read without its payload', () => {
  const task: LeasedTask = {
    queue: 'g#q',
    pid: bytes('p'),
    data: bytes('12345'),
    leaseToken: 77,
    leaseUntilUnixMs: 1,
    attempt: 1,
    enqueuedUnixMs: 1,
    leaseDurationMs: 0,
    progress: '',
    headers: {},
    key: '',
    timeLimitMs: 0,
    patternId: 0,
    maxAttempts: 3,
  };
  const read = readLeased(encodeToBuffer(LeasedTask, task));
  expect({ ...read, pid: Buffer.from(read.pid) }).toEqual({
    queue: 'g#q',
    pid: bytes('p'),
    leaseToken: 77,
    dataBytes: 5,
    patternId: 0,
  });
});

test('the queue of a request is the last one that it names, as for any decoder', () => {
  expect(readQueue(Buffer.from([0x0a, 1, 0x61, 0x0a, 1, 0x62]))).toBe('b');
  expect(readQueue(Buffer.alloc(0))).toBeUndefined();
});
