import { SeededRandom, settle, VirtualClock } from '@taskmaster/engine/testing';
import {
  encodeStreamEntries,
  encodeToBuffer,
  ResultField,
  StreamRequest,
  UpdateTasksRequest,
  UpdateTasksResponse,
} from '@taskmaster/proto';
import { unlimitedAccess } from '@taskmaster/server/access';
import type { UnaryCaller } from '@taskmaster/server/calls';
import { anEnqueue, anUpdate } from '@taskmaster/server/testing';
import { expect, test } from 'vitest';
import { createRouterService } from '../router/router-service.ts';
import { Router } from '../router/routing/router.ts';
import { FakeUpstream, lost } from '../testing/fake-upstream.ts';
import { FixedRoutes } from '../testing/fixed-routes.ts';

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const REPLY = encodeToBuffer(UpdateTasksResponse, { enqueued: [], renewed: [], released: [], refused: [] });

/** Calls of their own at a proxy in front of one node. */
function setUp() {
  const upstream = new FakeUpstream();
  upstream.answer = () => REPLY;
  const routes = new FixedRoutes({ nodes: [{ nodeId: 'a', name: 'a', address: 'a:1', alive: true }], partitions: 4 });
  const deps = { routes, upstream, clock: new VirtualClock(), random: new SeededRandom(1), log: SILENT };
  const service = createRouterService(new Router(deps));
  const update = (from: string, dataBytes: number) => {
    const request = anUpdate({ enqueue: [anEnqueue({ data: Buffer.alloc(dataBytes) })] });
    const caller: UnaryCaller = {
      address: from,
      access: unlimitedAccess,
      gone: false,
      signal: undefined,
      routed: false,
      forwarded: false,
      deadline: Infinity,
    };
    return service.unary.UpdateTasks?.(encodeToBuffer(UpdateTasksRequest, request), caller);
  };
  return { upstream, update };
}

test('small updates of all callers share one stream to a node, and one message if they come together', async () => {
  const { upstream, update } = setUp();
  const answers = ['1.1.1.1:1', '2.2.2.2:2', '3.3.3.3:3'].map((from) => update(from, 100));
  await settle();
  expect(upstream.streams).toHaveLength(1);
  const [pipe] = upstream.streams;
  expect(pipe?.written).toHaveLength(1);
  const ids = StreamRequest.decode(pipe?.written[0] ?? Buffer.alloc(0)).calls.map(({ id }) => id);
  pipe?.say(encodeStreamEntries(ids.map((id) => ({ id, field: ResultField.update, bytes: REPLY }))));
  expect(await Promise.all(answers)).toEqual([REPLY, REPLY, REPLY]);
  expect(upstream.asked).toEqual([]);
});

test('a large update is sent alone, so that no other waits behind it', async () => {
  const { upstream, update } = setUp();
  expect(await update('1.1.1.1:1', 100_000)).toEqual(REPLY);
  expect(upstream.asked).toMatchObject([{ method: 'UpdateTasks', options: { peer: { address: '1.1.1.1:1' } } }]);
  expect(upstream.streams).toEqual([]);
});

test('a broken stream is replaced at the next update; its own updates may have been applied', async () => {
  const { upstream, update } = setUp();
  const first = update('1.1.1.1:1', 100);
  const outcome = expect(first).rejects.toMatchObject({ reason: 'OUTCOME_UNKNOWN' });
  await settle();
  upstream.streams[0]?.breakWith(lost());
  await outcome;
  void update('1.1.1.1:1', 100);
  await settle();
  expect(upstream.streams).toHaveLength(2);
});
