import { Queue, textCodec } from '@taskmaster/client';
import { openEmbedded } from '@taskmaster/node';
import { afterEach, expect, test, vi } from 'vitest';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { drain } from './verify-load.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

test('a task whose last lease ends while queues are looked at is found among the dead letters', async () => {
  await using dir = await temporaryDirectory();
  await using client = await openEmbedded({ dir: dir.path });
  const stage = client.queue('load#in', { codec: textCodec });
  await stage.enqueue('last attempt', { pid: 'own 1', retry: { maxAttempts: 1, deadLetterQueue: 'load#dead' } });
  const [task] = await stage.lease({ for: 100 });

  const { stats } = Queue.prototype;
  vi.spyOn(Queue.prototype, 'stats').mockImplementation(async function (this: Queue<unknown>, options) {
    const told = await stats.call(this, options);
    // After nothing was seen there, and before the queue of the task is looked at.
    if (this.name === 'load#dead') await vi.waitFor(() => expect(Date.now()).toBeGreaterThan(Number(task?.leaseUntil)));
    return told;
  });
  const found = await drain(client, ['load#dead', 'load#in']);
  expect(found).toEqual([{ queue: 'load#dead', pid: 'own 1', data: 'last attempt' }]);
});
