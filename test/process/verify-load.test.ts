import { type EnqueueCall, History, type Outcome } from '@taskmaster/cli/testing/history';
import { Queue, textCodec } from '@taskmaster/client';
import { openEmbedded } from '@taskmaster/node';
import { afterEach, expect, test, vi } from 'vitest';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { drain, verifyLoad } from './verify-load.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

test('a task whose last lease ends while queues are read is found among the dead letters', async () => {
  await using dir = await temporaryDirectory();
  await using client = await openEmbedded({ dir: dir.path });
  const stage = client.queue('load#in', { codec: textCodec });
  await stage.enqueue('last attempt', { pid: 'own 1', retry: { maxAttempts: 1, deadLetterQueue: 'load#dead' } });
  const [task] = await stage.lease({ leaseDuration: 100 });

  const { stats } = Queue.prototype;
  vi.spyOn(Queue.prototype, 'stats').mockImplementation(async function (this: Queue<unknown>, options) {
    const told = await stats.call(this, options);
    // After the dead-letter queue was found empty, and before the task's queue is read.
    if (this.name === 'load#dead') await vi.waitFor(() => expect(Date.now()).toBeGreaterThan(Number(task?.leaseUntil)));
    return told;
  });
  const found = await drain(client, ['load#dead', 'load#in']);
  expect(found).toEqual([{ queue: 'load#dead', pid: 'own 1', data: 'last attempt' }]);
});

test('a task of an update whose answer was lost is counted, although the history has no PID for it', async () => {
  await using dir = await temporaryDirectory();
  await using client = await openEmbedded({ dir: dir.path });
  const queue = client.queue('load#in', { codec: textCodec });
  const history = new History();
  /** Enqueues a task without a PID: the node assigns it. */
  const enqueue = async (data: string, isAnswered: boolean): Promise<void> => {
    const item: EnqueueCall = {
      queue: queue.name,
      data,
      mode: 'collapse',
      delayMs: 0,
      pid: undefined,
      retry: undefined,
    };
    const none = { dequeue: [], renew: [], release: [], requestId: undefined };
    const recording = history.begin({ kind: 'update', enqueue: [item], ...none }, Date.now());
    const { pid } = await queue.enqueue(data);
    const told: Outcome = {
      kind: 'updated',
      renewed: [],
      released: [],
      enqueued: [{ pid: Buffer.from(pid).toString('latin1'), result: 'created' }],
    };
    recording.end(isAnswered ? told : { kind: 'unknown' }, Date.now());
  };
  await enqueue('answered', true);
  await enqueue('lost', false);
  expect(await verifyLoad(client, history)).toEqual({ summary: expect.stringContaining('1 unknown'), problem: '' });
});
