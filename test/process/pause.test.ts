import { setTimeout as delay } from 'node:timers/promises';
import { connect, LeaseExpiredError, LeaseLostError } from '@taskmaster/client';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { startNode } from '../support/processes/start-node.ts';

/* A process does not notice that it is paused, for example by a debugger, a laptop's lid or a machine that swaps. */
describe('a node that is paused', { timeout: 60_000 }, () => {
  test('expires leases that ended meanwhile, and gives their tasks to waiting requests', async () => {
    await using node = await startNode();
    await using holder = await connect({ endpoints: node.endpoint, timeout: '30s' });
    await using other = await connect({ endpoints: node.endpoint, timeout: '30s' });
    const jobs = holder.queue<string>('jobs');
    await jobs.enqueue('short');
    await jobs.enqueue('long');
    const [short] = await jobs.lease({ leaseDuration: '1s' });
    const [long] = await jobs.lease({ leaseDuration: '10m' });
    const waiting = other.queue('jobs').lease({ wait: '20s', max: 10 });
    process.kill(node.pid, 'SIGSTOP');
    try {
      const { signal } = short ?? {};
      await eventually(() => expect(signal?.aborted).toBe(true));
      expect(signal?.reason).toBeInstanceOf(LeaseExpiredError);
      await delay(500); // More time that the node must count.
    } finally {
      process.kill(node.pid, 'SIGCONT');
    }
    expect((await waiting).map(({ data, attempt }) => [data, attempt])).toEqual([['short', 2]]);
    await expect(short?.complete()).rejects.toBeInstanceOf(LeaseLostError);
    await long?.renew();
    await long?.complete();
    expect(await jobs.stats()).toMatchObject({ leased: 1, available: 0 });
  });

  test('answers each call that arrived meanwhile once', async () => {
    await using node = await startNode();
    await using client = await connect({ endpoints: node.endpoint, timeout: '30s' });
    const jobs = client.queue<number>('jobs');
    await jobs.enqueue(-1);
    process.kill(node.pid, 'SIGSTOP');
    let answered = 0;
    const asked = Array.from({ length: 100 }, (_, number) => jobs.enqueue(number).finally(() => answered++));
    await delay(500); // Long enough for all calls to arrive.
    expect(answered).toBe(0);
    process.kill(node.pid, 'SIGCONT');
    await Promise.all(asked);
    expect(await jobs.stats()).toMatchObject({ available: 101 });
  });
});
