import type { Pid, UpdateCommand } from '@taskmaster/engine/domain';
import { keptLog } from '@taskmaster/engine/testing';
import { BatchUpdateTasksResponse, EnqueueResult, limits } from '@taskmaster/proto';
import { unlimitedAccess } from '@taskmaster/server/access';
import { anEnqueue, anUpdate } from '@taskmaster/server/testing';
import { describe, expect, test } from 'vitest';
import { openWatchedEngine } from '../testing/watched-engine.ts';
import { createHandlers } from './handlers.ts';

const caller = { address: '10.0.0.1:5', access: unlimitedAccess, gone: false, signal: undefined };
const setUp = async () => {
  const engine = await openWatchedEngine();
  return { engine, handlers: createHandlers(engine, keptLog()) };
};

describe('a batch', () => {
  test('gives the engine the updates of each group together, and those with a request id or parts alone', async () => {
    const { engine, handlers } = await setUp();
    const of = (queue: string, more = {}) => anUpdate({ enqueue: [anEnqueue({ queue })], ...more });
    const requests = [
      of('a#1'),
      of('b#1'),
      of('a#2'),
      of('a#3', { requestId: Buffer.from('id') }),
      of('a#4', { parts: [{ enqueues: 1, dequeues: 0, renewals: 0, releases: 0 }] }),
    ];
    const { results } = await handlers.batchUpdateTasks({ requests }, caller);
    expect(results.map(({ result }) => result?.$case)).toEqual(requests.map(() => 'response'));
    const asked = engine.asked.map(({ command }) => (command as UpdateCommand).enqueue);
    expect(asked.map((items) => items.map(({ queue }) => queue.name)).sort()).toEqual([
      ['1'],
      ['1', '2'],
      ['3'],
      ['4'],
    ]);
  });

  test.each([
    ['updates with request ids', (at: number) => anUpdate({ requestId: Buffer.from(`${at}`) }), 10],
    ['updates of many groups', () => anUpdate(), 10],
  ])('of %s publishes about as much as one update may, and not at once', async (_what, update, served) => {
    let inOneTurn = 0;
    let most = 0;
    const published = Array.from({ length: 1_000 }, (_, at) => ({
      queue: { group: '', name: `${at}` },
      pid: '1' as Pid,
      result: EnqueueResult.ENQUEUE_RESULT_CREATED,
      leased: false,
    }));
    const outcome = {
      enqueued: [{ pid: '' as Pid, result: EnqueueResult.ENQUEUE_RESULT_PUBLISHED, leased: false, published }],
      renewed: [],
      released: [],
      refusals: new Map(),
    };
    const apply = async () => {
      most = Math.max(most, ++inOneTurn);
      setImmediate(() => inOneTurn--);
      return outcome;
    };
    const engine = await openWatchedEngine({
      updates: { apply, applyBatch: apply },
      topics: { countOf: () => 1_000 },
    });
    const handlers = createHandlers(engine, keptLog());
    const requests = Array.from({ length: 100 }, (_, at) => ({
      ...update(at),
      enqueue: [anEnqueue({ queue: '', topic: `g${at}#news` })],
    }));
    const { results } = await handlers.batchUpdateTasks({ requests }, caller);
    expect(results.filter(({ result }) => result?.$case === 'response')).toHaveLength(served);
    const { result } = results.at(-1) ?? {};
    expect(result).toMatchObject({ $case: 'error', value: { message: expect.stringContaining('one batch may') } });
    expect(most).toBe(1);
  });

  test('publishes no more than its reply can name', async () => {
    const long = 'q'.repeat(500);
    const published = Array.from({ length: 1_000 }, (_, at) => ({
      queue: { group: long, name: `${long}${at}` },
      pid: '1' as Pid,
      result: EnqueueResult.ENQUEUE_RESULT_CREATED,
      leased: false,
    }));
    const engine = await openWatchedEngine({
      updates: {
        apply: async () => ({
          enqueued: [{ pid: '' as Pid, result: EnqueueResult.ENQUEUE_RESULT_PUBLISHED, leased: false, published }],
          renewed: [],
          released: [],
        }),
      },
      topics: { countOf: () => 1_000 },
    });
    const handlers = createHandlers(engine, keptLog());
    const requests = Array.from({ length: 6 }, (_, at) =>
      anUpdate({ requestId: Buffer.from(`${at}`), enqueue: [anEnqueue({ queue: '', topic: `${long}#news` })] }),
    );
    const reply = await handlers.batchUpdateTasks({ requests }, caller);
    expect(reply.results.map(({ result }) => result?.$case)).toEqual([
      ...['response', 'response', 'response'],
      ...['error', 'error', 'error'],
    ]);
    expect(BatchUpdateTasksResponse.encode(reply).finish().length).toBeLessThan(limits.requestBytes);
  });
});
