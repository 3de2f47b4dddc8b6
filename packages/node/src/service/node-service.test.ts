import { setImmediate as nextTurn } from 'node:timers/promises';
import { keptLog } from '@taskmaster/engine/testing';
import {
  encodeToBuffer,
  formatQueueName,
  LeaseTasksRequest,
  ListQueuesRequest,
  UpdateTasksRequest,
} from '@taskmaster/proto';
import { unlimitedAccess } from '@taskmaster/server/access';
import type { UnaryCaller } from '@taskmaster/server/calls';
import { aFilter, aLease, aList, anEnqueue, anUpdate, waitingLeaseKeepsMessage } from '@taskmaster/server/testing';
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
