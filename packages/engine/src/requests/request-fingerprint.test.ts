import { expect, test } from 'vitest';
import { batchOf } from '../domain/batches.ts';
import { updateCommand } from '../testing/engine-harness.ts';
import { fingerprintOf } from './request-fingerprint.ts';

function printOf(timeLimit: number | undefined): number {
  const item = { queue: 'g#q', pid: 'p', data: 'data', retry: 'by settings', timeLimit } as const;
  return fingerprintOf(batchOf([updateCommand({ enqueue: [item] })], undefined));
}

test('the checksum of a request is that of earlier builds, which have recorded it', () => {
  expect([printOf(undefined), printOf(5000)]).toEqual([1125430505, 4261033954]);
});
