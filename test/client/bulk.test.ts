import { connectionLost } from '@taskmaster/client/testing';
import { startBulk } from '@taskmaster/engine/testing';
import type { BulkAction } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { clientSetUp } from './support/client-set-up.ts';

describe('a bulk run', () => {
  test('is previewed, started once in spite of a lost answer, and gives its progress until its end', async () => {
    const { client, timing, transport, engine } = clientSetUp();
    const queue = client.queue<number>('shop#mail');
    await queue.enqueueMany(
      [1, 2, 3].map((n) => ({ pid: `p${n}`, data: n, headers: { tenant: n === 3 ? 'a' : 'b' } })),
    );
    const options = { action: 'move', queues: 'shop#*', to: 'shop#later', headers: { tenant: 'b' } } as const;
    const preview = await client.previewBulk(options);
    expect(preview).toMatchObject({ queues: 1, tasks: 3, lookedAt: 3, matched: 2, leased: 0 });
    expect(preview.samples.map(({ pid }) => Buffer.from(pid).toString())).toEqual(['p1', 'p2']);

    transport.faults.startBulkRun.push({ when: 'after', error: connectionLost() });
    const starting = client.bulk({ ...options, rate: 1 });
    await timing.advance(1_000);
    const run = await starting;
    const states: string[] = [];
    const watching = (async () => {
      for await (const { state, changed } of run) states.push(`${state} ${changed}`);
    })();
    await timing.advance(5_000);
    await watching;
    expect([states.at(0)?.slice(0, 7), states.at(-1)]).toEqual(['running', 'done 2']);
    expect(await engine.pids('shop#later')).toEqual(['p1', 'p2']);
    const [listed] = await client.bulkRuns('shop');
    expect(listed).toEqual(await run.progress());
    expect(listed).toMatchObject({ id: run.id, queues: 'shop#*', action: 'move', skipped: {}, problem: undefined });
    expect(listed?.endedAt).toBeInstanceOf(Date);
    expect(await client.bulkRuns()).toEqual([]);
  });

  test('is previewed in as many calls as it takes, with progress', async () => {
    const { client, transport } = clientSetUp();
    await client.queue('shop#mail').enqueueMany(Array.from({ length: 4 }, (_, n) => ({ pid: `${n}`, data: n })));
    // The node looks at two tasks in a call. It begins again in the second one.
    const place = { queueId: 0, afterPid: Buffer.of() };
    transport.answers.startBulkRun = async ({ previewFrom }, send) => {
      const { preview, ...answer } = await send();
      if (preview === undefined) throw new Error('it is a preview');
      const [leased, next] = previewFrom === undefined ? [1, place] : [0, undefined];
      const samples = preview.samples.slice(0, 2);
      return { ...answer, preview: { ...preview, lookedAt: 2, matched: 2, leased, samples, next } };
    };
    const seen: number[] = [];
    const onProgress = ({ lookedAt }: { readonly lookedAt: number }): void => void seen.push(lookedAt);
    const preview = await client.previewBulk({ action: 'delete', queues: 'shop#mail', onProgress });
    expect(preview).toMatchObject({ queues: 1, tasks: 4, lookedAt: 4, matched: 4, leased: 1 });
    expect(preview.samples).toHaveLength(4);
    expect(seen).toEqual([2, 4]);
    expect(transport.arrived.startBulkRun.map(({ previewFrom }) => previewFrom)).toEqual([undefined, place]);
  });

  test('of an action that this version does not know is listed with the others', async () => {
    const { client, timing, engine } = clientSetUp();
    const spec = { action: 99 as BulkAction };
    await startBulk(await engine.opened, 'shop#mail', spec);
    await timing.advance(1_000);
    expect(await client.bulkRuns('shop')).toMatchObject([{ id: 'run', action: 'unknown', state: 'failed' }]);
  });

  test('is cancelled, and known by its id', async () => {
    const { client, timing } = clientSetUp();
    await client.queue('q').enqueueMany([1, 2, 3].map((data) => ({ data })));
    const run = await client.bulk({ action: 'delete', queues: 'q', rate: 1, id: 'clean-up' });
    const done = client.bulkRun('', 'clean-up').done();
    expect(await run.cancel()).toBe(true);
    await timing.advance(1_000);
    expect(await done).toMatchObject({ id: 'clean-up', state: 'cancelled' });
    expect(await run.cancel()).toBe(false);
    expect(await client.bulkRun('', 'another').progress()).toBeUndefined();
    expect(await client.bulkRun('', 'another').done()).toBeUndefined();
  });

  test('goes to the node as it is given', async () => {
    const { client, transport } = clientSetUp();
    const hide = new Date('2030-01-01T00:00:00Z');
    await client.bulk({
      action: 'reschedule',
      queues: 'shop#*',
      tasks: 'delayed',
      olderThan: '1h',
      newerThan: '2h',
      error: 'timeout',
      keyPrefix: 'order',
      hide,
      maxTasks: 5,
      id: 'x',
    });
    const [request] = transport.arrived.startBulkRun;
    expect(request).toMatchObject({ id: 'x', queues: 'shop#*', preview: false, allTasks: false });
    expect(request?.spec).toMatchObject({ delayMs: 0, runAtUnixMs: hide.getTime(), rate: 0, maxTasks: 5, target: '' });
    expect(request?.spec?.filter).toEqual({
      tasks: 2,
      minAgeMs: 3_600_000,
      maxAgeMs: 7_200_000,
      errorContains: 'timeout',
      headers: undefined,
      keyPrefix: 'order',
    });
  });

  test.each([
    [{ action: 'explode' }, "action: 'explode' is none of retry, move"],
    [{ action: 'toString' }, 'action'],
    [{ queues: '*#*' }, 'a pattern chooses queues of one group'],
    [{ tasks: 'done' }, "tasks: 'done' is none of available"],
    [{ olderThan: 'soon' }, 'olderThan'],
    [{ newerThan: 0 }, 'newerThan'],
    [{ error: '' }, 'error: "" is no text'],
    [{ keyPrefix: '' }, 'keyPrefix: "" is no text'],
    [{ kind: '' }, 'kind: "" is no text'],
    [{ rate: 0 }, 'rate: 0 is no whole number of at least 1'],
    [{ rate: 1.5 }, 'rate'],
    [{ maxTasks: 0 }, 'maxTasks'],
    [{ action: 'reschedule', hide: 0 }, 'hide'],
    [{ olderThen: '1h' }, 'did you mean olderThan?'],
    [{ headers: { a: 1 } }, 'a is not text'],
  ])('of the wrong form is no request: %j', async (options, message) => {
    const { client, transport } = clientSetUp();
    const given = { action: 'delete', queues: 'q', ...options } as never;
    await expect(client.bulk(given)).rejects.toThrow(message);
    await expect(client.previewBulk(given)).rejects.toThrow(message);
    expect(transport.arrived.startBulkRun).toEqual([]);
  });

  test('on all tasks of a group must be asked for', async () => {
    const { client } = clientSetUp();
    await expect(client.bulk({ action: 'delete', queues: 'shop#*' })).rejects.toMatchObject({
      reason: 'INVALID_ARGUMENT',
    });
    await client.bulk({ action: 'delete', queues: 'shop#*', allTasks: true });
    await client.previewBulk({ action: 'delete', queues: 'shop#*' });
  });
});
