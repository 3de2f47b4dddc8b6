import { setImmediate as nextTurn } from 'node:timers/promises';
import { keptLog } from '@taskmaster/engine/testing';
import {
  encodeToBuffer,
  formatQueueName,
  LeaseTasksRequest,
  ListQueuesRequest,
  type TaskLinks,
  UpdateTasksRequest,
} from '@taskmaster/proto';
import { unlimitedAccess } from '@taskmaster/server/access';
import type { UnaryCaller } from '@taskmaster/server/calls';
import {
  aDequeue,
  aFilter,
  aLease,
  aList,
  anEnqueue,
  anUpdate,
  aRenew,
  waitingLeaseKeepsMessage,
} from '@taskmaster/server/testing';
import { describe, expect, test } from 'vitest';
import { openWatchedEngine } from '../testing/watched-engine.ts';
import { createHandlers } from './handlers.ts';
import { createNodeService } from './node-service.ts';
import type { FairTurns, Size, Work } from './turns/fair-turns.ts';

test('a waiting lease does not keep its message in memory', async () => {
  const engine = await openWatchedEngine();
  const session = createNodeService(createHandlers(engine, keptLog())).openStream({
    address: '127.0.0.1:1',
    routed: false,
    forwarded: false,
    access: unlimitedAccess,
  });
  expect(await waitingLeaseKeepsMessage(session)).toBe(false);
  expect(engine.asked).toHaveLength(1);
});

const callerAt = (address: string): UnaryCaller => ({
  address,
  access: unlimitedAccess,
  gone: false,
  signal: undefined,
  routed: false,
  forwarded: false,
  deadline: Number.POSITIVE_INFINITY,
});

test('a publication takes turns by what it becomes, not by its size', async () => {
  const sizes: Size[] = [];
  const turns = {
    run: <T>(_caller: string, { tasks, kib, copiedKib, start }: Work<T>) => {
      sizes.push({ tasks, kib, copiedKib });
      return start();
    },
  } as FairTurns;
  const engine = await openWatchedEngine({
    topics: { countOf: (topic) => (formatQueueName(topic) === 'shop#orders' ? 1_000 : 0) },
  });
  const { unary } = createNodeService(createHandlers(engine, keptLog()), turns);
  const data = Buffer.alloc(16 * 1024);
  for (const place of [
    { topic: 'shop#orders', queue: '' },
    { topic: 'shop#other', queue: '' },
    { queue: 'shop#orders' },
  ]) {
    const enqueue = [anEnqueue({ ...place, data })];
    await unary.UpdateTasks?.(encodeToBuffer(UpdateTasksRequest, anUpdate({ enqueue })), callerAt('10.0.0.1:1'));
  }
  expect(sizes).toEqual([
    { tasks: 1_001, kib: 16, copiedKib: 16_000 },
    { tasks: 1, kib: 16, copiedKib: 0 },
    { tasks: 1, kib: 16, copiedKib: 0 },
  ]);
});

describe('an update that waits for its turn counts with', () => {
  const text = (length: number): string => 'x'.repeat(length);
  const enqueue = (of: Parameters<typeof anEnqueue>[0]) => anUpdate({ enqueue: [anEnqueue({ queue: 'g#q', ...of })] });
  const links = (of: Partial<TaskLinks>) =>
    enqueue({ links: { waitFor: undefined, parents: [], orderKey: '', ...of } });
  const renew = (of: Parameters<typeof aRenew>[0]) => anUpdate({ renew: [aRenew(of)] });

  test.each<[string, (length: number) => UpdateTasksRequest]>([
    ['its payloads', (length) => enqueue({ data: Buffer.alloc(length) })],
    ['its keys', (length) => enqueue({ key: text(length) })],
    ['its keys of limits', (length) => enqueue({ limitKey: text(length) })],
    ['its kinds', (length) => enqueue({ kind: text(length) })],
    ['its ids of signals', (length) => enqueue({ signalId: text(length) })],
    ['its headers', (length) => enqueue({ headers: { name: text(length) } })],
    ['its keys of orders', (length) => links({ orderKey: text(length) })],
    [
      'its parents',
      (length) => links({ parents: [{ queue: 'g#p', pid: Buffer.alloc(0), key: text(length), onFailure: 1 }] }),
    ],
    ['its results', (length) => anUpdate({ dequeue: [aDequeue({ result: Buffer.alloc(length) })] })],
    ['its reasons', (length) => anUpdate({ dequeue: [aDequeue({ cancelReason: text(length) })] })],
    ['its progress', (length) => renew({ progress: text(length) })],
    ['its checkpoints', (length) => renew({ checkpoint: Buffer.alloc(length) })],
  ])('%s', async (_what, update) => {
    const held: number[] = [];
    const turns = {
      run: <T>(_caller: string, { heldBytes, start }: Work<T>) => {
        held.push(heldBytes());
        return start();
      },
    } as FairTurns;
    const { unary } = createNodeService(createHandlers(await openWatchedEngine(), keptLog()), turns);
    for (const length of [10, 110]) {
      // Some are refused after their turn.
      const request = encodeToBuffer(UpdateTasksRequest, update(length));
      await unary.UpdateTasks?.(request, callerAt('10.0.0.1:1')).catch(() => {});
    }
    expect((held[1] ?? 0) - (held[0] ?? 0)).toBe(100);
  });
});

test('a pattern takes a turn of its own while its expression is to be compiled', async () => {
  const sizes: number[] = [];
  const turns = {
    run: <T>(_caller: string, { tasks, start }: Work<T>) => {
      sizes.push(tasks);
      return start();
    },
  } as FairTurns;
  const engine = await openWatchedEngine();
  const { unary } = createNodeService(createHandlers(engine, keptLog()), turns);
  const patterns = [{ nameRegex: '^turns#', afterQueues: 0, id: 1 }];
  const request = encodeToBuffer(LeaseTasksRequest, aLease({ queues: [], maxTasks: 1, patterns }));
  for (let call = 0; call < 2; call++) await unary.LeaseTasks?.(request, callerAt('10.0.0.1:1'));
  expect(sizes).toEqual([65, 1]);
});

describe('listings that take long', () => {
  test.each([
    ['one connection', () => '10.0.0.1:1'],
    ['many connections of a host', (number: number) => `10.0.0.1:${number}`],
  ])('of %s leave places for other callers', async (_who, addressOf) => {
    let slow = 0;
    const engine = await openWatchedEngine({
      listQueues: ({ filter }) => {
        if (filter.matches === undefined) return Promise.resolve({ queues: [], more: false });
        slow++;
        return new Promise(() => {});
      },
    });
    const { unary } = createNodeService(createHandlers(engine, keptLog()));
    const list = (regex: string, caller: UnaryCaller): Promise<unknown> | undefined =>
      unary.ListQueues?.(encodeToBuffer(ListQueuesRequest, aList({ filter: aFilter({ nameRegex: regex }) })), caller);
    for (let call = 0; call < 64; call++) void list('(.*N){20}n', callerAt(addressOf(call)));
    for (let turn = 0; turn < 64; turn++) await nextTurn();
    expect(slow).toBeGreaterThan(1);
    expect(await list('', callerAt('10.0.0.2:1'))).toBeDefined();
  });
});
