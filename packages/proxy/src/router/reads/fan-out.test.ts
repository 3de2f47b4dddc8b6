import { status } from '@grpc/grpc-js';
import { SeededRandom, VirtualClock } from '@taskmaster/engine/testing';
import { encodeToBuffer, ListQueuesResponse } from '@taskmaster/proto';
import { clusterAccess } from '@taskmaster/server/access';
import { describe, expect, test } from 'vitest';
import { type Asked, FakeUpstream, lost, refused } from '../../testing/fake-upstream.ts';
import { FixedRoutes } from '../../testing/fixed-routes.ts';
import { unarySender } from '../../upstream/sender.ts';
import { LostError } from '../../upstream/upstream.ts';
import { routerItself } from '../routed-peer.ts';
import { Router } from '../routing/router.ts';
import { askAll } from './fan-out.ts';

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const PAGE = encodeToBuffer(ListQueuesResponse, { queues: [], nextPageToken: '', unreachable: [] });

/** Asks nodes a and b, of which a answers well and b as the test says. */
function listing(answerOfB: (asked: Asked) => Promise<Uint8Array> | Uint8Array, names: readonly string[] = ['a', 'b']) {
  const upstream = new FakeUpstream();
  upstream.answer = (asked) => (asked.address === 'a:1' ? PAGE : answerOfB(asked));
  const clock = new VirtualClock();
  const nodes = names.map((name) => ({ nodeId: name, name, address: `${name}:1`, alive: true }));
  const routes = new FixedRoutes({ nodes, partitions: 4 });
  const router = new Router({ routes, upstream, clock, random: new SeededRandom(1), log: SILENT });
  const caller = {
    sender: unarySender(upstream, routerItself),
    access: clusterAccess,
    gone: false,
    signal: undefined,
    until: undefined,
  };
  return clock.run(askAll(router, 'ListQueues', Buffer.alloc(0), ListQueuesResponse, caller));
}

describe('one of several asked nodes that fails', () => {
  test.each([
    ['has too much to do', () => Promise.reject(refused('OVERLOADED', status.RESOURCE_EXHAUSTED))],
    ['has a fault', () => Promise.reject(refused('INTERNAL', status.INTERNAL))],
    ['found its rows damaged', () => Promise.reject(refused('CORRUPT_DATA', status.DATA_LOSS))],
    ['has lost its disk', () => Promise.reject(refused('STORE_FAILED', status.UNAVAILABLE))],
    ['is not there', () => Promise.reject(lost())],
    ['takes too long', () => Promise.reject(new LostError('no answer came in time', 'deadline', true))],
    ['does not know the method', () => Promise.reject(new LostError('what is that?', 'broken', false))],
    ['answers what nobody understands', () => Buffer.from([0xff])],
  ])('is named, and the queues of the others are listed: it %s', async (_what, answer) => {
    const { replies, unreachable } = await listing(answer);
    expect(replies).toHaveLength(1);
    expect(unreachable).toMatchObject([{ nodeId: 'b', name: 'b', address: 'b:1' }]);
    expect(unreachable[0]?.problem).not.toBe('');
  });
});

describe('a listing is refused', () => {
  test('if the request is wrong: the caller gets the refusal of the nodes', async () => {
    const wrong = () => Promise.reject(refused('INVALID_REGEX', status.INVALID_ARGUMENT));
    await expect(listing(wrong)).rejects.toMatchObject({ error: { reason: 'INVALID_REGEX' } });
  });

  test('if the caller has cancelled it', async () => {
    const gaveUp = () => Promise.reject(new LostError('the call was cancelled', 'cancelled', true));
    await expect(listing(gaveUp)).rejects.toMatchObject({ reason: 'CANCELLED' });
  });

  test('if no node answers: with a refusal, if all nodes are reached', async () => {
    const answers = ({ address }: Asked) =>
      Promise.reject(address === 'b:1' ? lost() : refused('OVERLOADED', status.RESOURCE_EXHAUSTED));
    await expect(listing(answers, ['b', 'c'])).rejects.toMatchObject({ reason: 'HOLDER_UNREACHABLE' });
    await expect(listing(answers, ['c', 'd'])).rejects.toMatchObject({ reason: 'OVERLOADED' });
    await expect(listing(answers, [])).rejects.toMatchObject({ reason: 'HOLDER_UNREACHABLE' });
  });
});
