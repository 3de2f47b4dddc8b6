import { pidText } from '@taskmaster/client';
import { limits } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { clientSetUp } from './support/client-set-up.ts';

const setUp = () => {
  const made = clientSetUp();
  return { ...made, a: made.client.queue<string>('g#a'), b: made.client.queue<string>('g#b') };
};

describe('a flow', () => {
  test('is a graph whose tasks begin when those before them have ended', async () => {
    const { client, a, b } = setUp();
    const flow = await client
      .flow()
      .add('last', b, 'last', { after: ['left', 'right'], collect: true })
      .add('left', a, 'left', { pid: 'l', after: 'first' })
      .add('right', a, 'right', { key: 'r', after: ['first'] })
      .add('first', a, 'first')
      .commit();
    expect(flow.tasks.map(({ name, isLast, result }) => [name, isLast, result])).toEqual([
      ['last', true, 'created'],
      ['left', false, 'created'],
      ['right', false, 'created'],
      ['first', false, 'created'],
    ]);
    const take = async (queue = a) => (await queue.lease({ max: 9 }))[0];
    const first = await take();
    expect(first?.data).toBe('first');
    await first?.complete();
    const [left, right] = await a.lease({ max: 9 });
    await left?.complete({ result: 1 });
    expect(await b.lease()).toEqual([]);
    await right?.complete({ result: 2 });
    const last = await take(b);
    expect((await last?.signals())?.map(({ child, data }) => [child?.queue, child?.completed, data])).toEqual([
      ['g#a', true, 1],
      ['g#a', true, 2],
    ]);
    const ends = client.waitForFlow(flow);
    await last?.complete({ result: 'all' });
    expect([...(await ends)].map(([name, { outcome, result }]) => [name, outcome, result])).toEqual([
      ['last', 'completed', 'all'],
    ]);
  });

  test('gives the results with the lease, unless they are too large for it', async () => {
    const { client, a, b, transport } = setUp();
    const results = ['small', 'x'.repeat(40_000), 'y'.repeat(40_000)];
    for (const most of [1, 3]) {
      const flow = client.flow();
      for (let at = 0; at < most; at++) flow.add(`${at}`, a, 'x');
      const after = Array.from({ length: most }, (_, at) => `${at}`);
      await flow.add('last', b, 'x', { after, collect: true }).commit();
      for (const [at, task] of (await a.lease({ max: 9 })).entries()) await task.complete({ result: results[at] });
      const [last] = await b.lease();
      expect((await last?.signals())?.map(({ data }) => data)).toEqual(results.slice(0, most));
      expect(transport.arrived.getTasks).toHaveLength(most === 1 ? 0 : 1);
      await last?.complete();
    }
  });

  test('is shown around a task: what has ended, and what waits for it', async () => {
    const { client, a, b } = setUp();
    await client
      .flow()
      .add('cut', a, 'x', { pid: 'cut', onFailure: 'continue' })
      .add('sound', a, 'x', { pid: 'sound' })
      .add('film', b, 'x', { key: 'film', after: ['cut', 'sound'], collect: true })
      .add('shown', b, 'x', { pid: 'shown', after: 'film' })
      .commit();
    await (await a.lease())[0]?.complete();
    const { ended, tasks, isCut } = await b.flowOf({ key: 'film' });
    expect(ended.map(({ queue, pid, completed }) => [queue, pidText(pid), completed])).toEqual([['g#a', 'cut', true]]);
    expect(tasks.map(({ task, after, onFailure }) => [task.key ?? pidText(task.pid), after, onFailure])).toEqual([
      ['film', undefined, undefined],
      ['shown', 0, 'fail'],
    ]);
    expect([tasks.map(({ task }) => task.waits?.signals), isCut]).toEqual([[1, 1], false]);
    const fromChild = await a.flowOf('cut');
    expect(fromChild.tasks.map(({ task }) => task.state)).toEqual(['not-found']);
    expect((await a.flowOf('sound')).tasks.map(({ task }) => task.key ?? pidText(task.pid))).toEqual([
      'sound',
      'film',
      'shown',
    ]);
  });

  test('goes on without a task that may fail, and ends with one that may not', async () => {
    for (const [onFailure, outcome] of [
      ['continue', 'completed'],
      ['fail', 'dead-lettered'],
    ] as const) {
      const { client, a, b, timing } = setUp();
      const flow = await client
        .flow()
        .add('one', a, 'x', { onFailure })
        .add('two', b, 'x', { after: 'one', collect: true })
        .commit();
      const [one] = await a.lease();
      await one?.deadLetter(new Error('broken'));
      const ends = client.waitForFlow(flow, { timeout: '1m' });
      await timing.advance(1_000);
      const [two] = await b.lease();
      expect((await two?.signals())?.map(({ child }) => child?.completed)).toEqual(two && [false]);
      await two?.complete();
      expect((await ends).get('two')?.outcome).toBe(outcome);
    }
  });

  test('may wait for a signal beside its tasks, which may come first', async () => {
    const { client, a, b } = setUp();
    expect(await b.signal('last', { id: 'paid', data: 7 })).toBe('kept');
    await client.flow().add('one', a, 'x').add('last', b, 'x', { pid: 'last', after: 'one', signals: 1 }).commit();
    await (await a.lease())[0]?.complete();
    expect(await b.signals('last')).toEqual([{ id: 'paid', child: undefined, data: 7 }]);
    expect((await b.lease()).map(({ data }) => data)).toEqual(['x']);
  });

  test('can be committed again: what is in its queue stays', async () => {
    const { client, a, b } = setUp();
    const commit = () =>
      client.flow().add('one', a, 'x', { pid: '1' }).add('two', b, 'x', { pid: '2', after: 'one' }).commit();
    await commit();
    expect((await commit()).tasks.map(({ result }) => result)).toEqual(['collapsed', 'collapsed']);
    expect(await b.get(['2'], { data: false })).toMatchObject([{ waits: { signals: 1, order: false } }]);
    expect(await a.get(['1'], { data: false })).toMatchObject([{ parents: [{ queue: 'g#b', onFailure: 'fail' }] }]);
  });

  test.each([
    ['a circle', ['b'], ['c'], ['a'], /wait for each other: a after b after c after a/],
    ['a task that waits for itself', ['a'], [], [], /a after a/],
    ['a name that is not in it', ['d'], [], [], /'a' waits for 'd', which is not in it/],
  ] as const)('with %s is refused before it is sent', async (_what, ofA, ofB, ofC, message) => {
    const { client, a, transport } = setUp();
    const flow = client.flow();
    for (const [name, after] of Object.entries({ a: ofA, b: ofB, c: ofC }))
      flow.add(name, a, name, { after: [...after] });
    await expect(flow.commit()).rejects.toThrow(message);
    expect(transport.arrived.updateTasks).toEqual([]);
  });

  test('with more tasks behind one than may wait for it is refused before it is sent, with what to do', async () => {
    const { client, a, transport } = setUp();
    const flow = client.flow().add('prepare', a, 'x');
    for (let at = 0; at <= limits.parents; at++) flow.add(`part ${at}`, a, 'x', { after: 'prepare' });
    await expect(flow.commit()).rejects.toThrow(
      "101 tasks wait for 'prepare': at most 100. Let its handler return them",
    );
    expect(transport.arrived.updateTasks).toEqual([]);
  });

  test('is refused without tasks, with two groups, and a second time', async () => {
    const { client, a } = setUp();
    await expect(client.flow().commit()).rejects.toThrow(TypeError);
    const two = client.flow().add('a', a, 'x').add('b', 'other#b', 'x', { after: 'a' });
    await expect(two.commit()).rejects.toMatchObject({ reason: 'MIXED_GROUPS' });
    expect(() => client.flow().add('a', a, 'x').add('a', a, 'x')).toThrow("two tasks have the name 'a'");
    await expect(client.flow().add('a', a, 'x', { timeout: '1s' }).commit()).rejects.toThrow(TypeError);
    const flow = client.flow().add('a', a, 'x');
    await flow.commit();
    await expect(flow.commit()).rejects.toThrow('already committed');
  });
});

describe('a signal', () => {
  test('is an item of an update and of a completion, and its outcome is told', async () => {
    const { client, a, b } = setUp();
    await b.enqueue('x', { pid: 'w', waitsFor: 3 });
    await a.enqueue('x');
    const [task] = await a.lease();
    await task?.complete({ enqueue: [b.signalFor('w', { id: 'one' })] });
    const outcome = await client
      .update()
      .signal(b, 'w', { id: 'one' })
      .signal(b, 'w', { id: 'two' })
      .enqueue(a, 'y', { pid: 'y' })
      .signal(b, { key: 'none' })
      .commit();
    expect(outcome.signals).toEqual(['collapsed', 'signalled', 'kept']);
    expect(outcome.enqueued).toMatchObject([{ result: 'created' }]);
    expect((await b.stats()).waiting).toBe(1);
    expect((await b.peek({ kind: 'waiting', data: false })).map(({ waits }) => waits)).toEqual([
      { signals: 1, order: false, onTimeout: undefined },
    ]);
  });

  test.each([
    ['waitsFor', { waitsFor: 0 }],
    ['waitsFor', { waitsFor: { signals: 1.5 } }],
    ['waitsFor.onTimeout', { waitsFor: { signals: 1, onTimeout: 'run' } }],
    ['waitsFor.timeout', { waitsFor: { signals: 1, timeout: 0 } }],
    ['parent.onFailure', { parent: { queue: 'g#b', task: 'x', onFailure: 'never' } }],
  ] as const)('or a wait with a wrong %s is a mistake: %j', async (what, options) => {
    const { a } = setUp();
    await expect(a.enqueue('x', options as never)).rejects.toThrow(what);
  });
});

test('tasks with an order key go to one shard, in their order', async () => {
  const { client } = setUp();
  const queue = client.shardedQueue<number>('o', { shards: 4 });
  for (let i = 0; i < 3; i++) await queue.enqueue(i, { orderKey: 'k' });
  for (let i = 0; i < 3; i++) {
    const leased = await queue.lease({ max: 9 });
    expect(leased.map(({ data }) => data)).toEqual([i]);
    await leased[0]?.complete();
  }
});
