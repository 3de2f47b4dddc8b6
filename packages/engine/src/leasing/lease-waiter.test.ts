import { expect, test } from 'vitest';
import type { LeaseCommand } from '../domain/commands.ts';
import type { Instant } from '../domain/ids.ts';
import { LeaseWaiter } from './lease-waiter.ts';

const command: LeaseCommand = {
  queues: [{ group: '', name: 'mail' }],
  maxTasks: 1,
  leaseDurationMs: 1_000,
  maxPid: undefined,
  waitMs: 1_000,
  worker: '',
  workerAddress: '',
  maxBytes: 1_000,
};

// A partition's gate may refuse a request after its wait is over. An unhandled rejection would end the node.
test('a refusal after the answer changes nothing and leaves no unhandled rejection', async () => {
  const unhandled: unknown[] = [];
  const note = (error: unknown): void => void unhandled.push(error);
  process.on('unhandledRejection', note);
  const waiter = new LeaseWaiter(command, new Set(), undefined, 0 as Instant);
  waiter.answer([]);
  waiter.fail(new Error('the node is shutting down'));
  expect(await waiter.answered).toEqual([]);
  await new Promise((resolve) => setImmediate(resolve));
  process.off('unhandledRejection', note);
  expect(unhandled).toEqual([]);
});
