import { connect } from '@taskmaster/client';
import { expect, test } from 'vitest';
import { startNode } from '../support/processes/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

test('what controls work is in force after a kill -9: pauses, limits, rates, turns, caps, orders, kinds, start times, checkpoints', async () => {
  await using dir = await temporaryDirectory();
  const before = await startNode({ dir: dir.path });
  {
    await using client = await connect(before.endpoint);
    const queue = (name: string) => client.queue<string>(`g#${name}`);
    await client.pauseQueues('g#paused', { reason: 'repairs' });
    await queue('paused').enqueue('x');
    await client.limitQueues('g#limited', { maxLeased: 1 });
    await queue('limited').enqueueMany([{ data: 'a' }, { data: 'b' }]);
    await queue('limited').lease({ leaseDuration: '10m' });
    await client.limitQueues('g#keyed', { keys: '*', maxLeased: 1 });
    for (const limitKey of ['ann', 'ann', 'bob']) await queue('keyed').enqueue(limitKey, { limitKey });
    await queue('keyed').lease({ leaseDuration: '10m' });
    await client.limitQueues('g#rated', { rate: { tasks: 1, per: '1h', burst: 3 } });
    await client.limitQueues('g#ratedKeys', { keys: '*', rate: { tasks: 1, per: '1h', burst: 1 } });
    await queue('rated').enqueueMany(['1', '2', '3', '4'].map((data) => ({ data })));
    await queue('rated').lease({ max: 2 });
    for (const limitKey of ['ann', 'ann', 'bob', 'bob']) await queue('ratedKeys').enqueue(limitKey, { limitKey });
    await queue('ratedKeys').lease();
    await client.queueSettings.put('g#turns', { fairTurns: { weights: { gold: 2 } }, maxKeyBacklog: 4 });
    for (const limitKey of ['busy', 'busy', 'busy', 'busy', 'gold', 'gold']) {
      await queue('turns').enqueue(limitKey, { limitKey });
    }
    await queue('order').enqueueMany(['1', '2'].map((data) => ({ data, orderKey: 'k' })));
    await queue('order').lease({ leaseDuration: '10m' });
    await queue('kinds').enqueueMany([
      { data: 'new', kind: 'resize@2' },
      { data: 'old', kind: 'resize@1' },
    ]);
    await queue('late').enqueue('x', { startBy: new Date(Date.now() + 1), key: 'late', maxAttempts: 1 });
    await queue('parent').enqueue('x', { pid: 'p', waitsFor: 2 });
    await client
      .update()
      .signal('g#parent', 'p', { id: 'one' })
      .signal('g#early', { key: 'k' }, { id: 'two', data: 'early' })
      .commit();
    await queue('checkpoint').enqueue('x', { pid: 'c' });
    const [task] = await queue('checkpoint').lease({ leaseDuration: '10m' });
    await task?.checkpoint(Buffer.from('half'));
  }
  await before.kill();

  await using node = await startNode({ dir: dir.path });
  await using client = await connect(node.endpoint);
  const queue = (name: string) => client.queue<string>(`g#${name}`);
  const lease = async (name: string, max = 10) => (await queue(name).lease({ max })).map(({ data }) => data);
  expect(await lease('paused')).toEqual([]);
  expect((await queue('paused').stats()).pause).toMatchObject({ reason: 'repairs' });
  expect(await lease('limited')).toEqual([]);
  expect(await lease('keyed')).toEqual(['bob']);
  expect(await lease('rated')).toEqual(['3']);
  expect(await lease('ratedKeys')).toEqual(['bob']);
  expect((await lease('turns', 3)).toSorted()).toEqual(['busy', 'gold', 'gold']);
  await queue('turns').enqueue('busy', { limitKey: 'busy' });
  await expect(queue('turns').enqueue('busy', { limitKey: 'busy' })).rejects.toMatchObject({ reason: 'BACKLOG_FULL' });
  expect(await lease('order')).toEqual([]);
  expect((await queue('kinds').lease({ max: 10, kinds: ['resize@1'] })).map(({ data }) => data)).toEqual(['old']);
  expect(await lease('late')).toEqual([]);
  expect((await queue('late').stats()).available).toBe(0);
  expect(await queue('parent').get(['p'], { data: false })).toMatchObject([{ waits: { signals: 1 } }]);
  await queue('early').enqueue('x', { key: 'k', waitsFor: 1 });
  expect(await lease('early')).toEqual(['x']);
  await queue('checkpoint').resetLeases();
  const [task] = await queue('checkpoint').lease();
  expect(Buffer.from(task?.previousCheckpoint ?? []).toString()).toBe('half');
});
