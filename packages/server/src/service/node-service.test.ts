import { setImmediate as nextTurn } from 'node:timers/promises';
import { encodeToBuffer, ListQueuesRequest } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { unlimitedAccess } from '../access/caller-access.ts';
import { fakeEngine } from '../grpc/testing/fake-engine.ts';
import { aFilter, aList } from '../grpc/testing/requests.ts';
import { keptLog } from '../grpc/testing/start-server.ts';
import { waitingLeaseKeepsMessage } from '../grpc/testing/waiting-lease.ts';
import { createHandlers } from './handlers.ts';
import { createNodeService } from './node-service.ts';
import type { UnaryCaller } from './raw-service.ts';

test('a waiting lease does not keep its message in memory', async () => {
  const engine = fakeEngine({ leaseTasks: () => new Promise(() => {}) });
  const session = createNodeService(createHandlers(engine, keptLog())).openStream({
    address: '127.0.0.1:1',
    routed: false,
    forwarded: false,
    access: unlimitedAccess,
  });
  expect(await waitingLeaseKeepsMessage(session)).toBe(false);
  expect(engine.asked).toHaveLength(1);
});

describe('listings that take long', () => {
  const callerAt = (address: string): UnaryCaller => ({
    address,
    access: unlimitedAccess,
    gone: false,
    signal: undefined,
    routed: false,
    forwarded: false,
    deadline: Number.POSITIVE_INFINITY,
  });

  test.each([
    ['one connection', () => '10.0.0.1:1'],
    ['many connections of a host', (number: number) => `10.0.0.1:${number}`],
  ])('of %s leave places for other callers', async (_who, addressOf) => {
    let slow = 0;
    const engine = fakeEngine({
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
