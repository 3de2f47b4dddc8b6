import { encodeToBuffer, LeasedTask, LeaseTasksRequest } from '@taskmaster/proto';
import { aLease, bytes } from '@taskmaster/server/testing';
import { expect, test } from 'vitest';
import { readEntries, readLeased, withNumbers, writeEntries } from './raw-codec.ts';

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
