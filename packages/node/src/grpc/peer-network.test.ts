import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Refusal } from '../domain/errors.ts';
import type { PeerHandlers } from '../ports/peer-network.ts';
import { PeerNetwork, PeerUnreachable } from './peer-network.ts';
import { PeerSeal } from './peer-seal.ts';
import { createPeerService } from './peer-service.ts';
import { fakeEngine } from './testing/fake-engine.ts';
import { startServer, type TestServer } from './testing/start-server.ts';

const WITHIN = { timeoutMs: 5_000 };
const ANSWER = {
  knowledge: { members: [], holders: [] },
  ...{ nodeId: 'b', clusterId: 'c', partitions: 256, nowMs: 5, mayCommit: true },
};
const ASKED = { clusterId: 'c', from: 'a', knowledge: { members: [], holders: [] } };

describe('calls between nodes', () => {
  let server: TestServer;
  let handlers: PeerHandlers<'exchange' | 'sendRows'> | undefined;
  let address = '';
  const network = (...keys: string[]) => new PeerNetwork(new PeerSeal(keys));

  beforeEach(async () => {
    handlers = {
      exchange: async () => ({ ...ANSWER }),
      sendRows: async ({ rows }) => {
        if (rows.length === 0) throw new Refusal('INVALID_ARGUMENT', 'no rows', { metadata: { rows: '0' } });
        return {};
      },
    };
    const others = [createPeerService(() => handlers as PeerHandlers, new PeerSeal(['new', 'old']))];
    server = await startServer(fakeEngine(), {}, undefined, others);
    address = `127.0.0.1:${server.port}`;
  });
  afterEach(() => server[Symbol.asyncDispose]());

  test('carry a request and its answer, sealed with any key that is accepted', async () => {
    for (const key of ['new', 'old']) {
      using peers = network(key);
      expect(await peers.call(address, 'exchange', ASKED, WITHIN)).toEqual(ANSWER);
    }
  });

  test('carry a row of the largest task', async () => {
    using peers = network('new');
    const row = {
      kind: 2,
      queueId: 1,
      key: Buffer.from('p'),
      value: Buffer.alloc(3 * 1024 * 1024),
      window: 0,
    } as const;
    expect(await peers.call(address, 'sendRows', { transfer: 't', sequence: 1, rows: [row] }, WITHIN)).toEqual({});
  });

  test('tell a refusal from an answer that did not come', async () => {
    using peers = network('new');
    const refused = peers.call(address, 'sendRows', { transfer: 't', sequence: 1, rows: [] }, WITHIN);
    await expect(refused).rejects.toBeInstanceOf(Refusal);
    await expect(refused).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT', metadata: { rows: '0' } });
    const unanswered = peers.call('127.0.0.1:1', 'exchange', ASKED, WITHIN);
    await expect(unanswered).rejects.toBeInstanceOf(PeerUnreachable);
  });

  test.each([[[]], [['another']]])('are refused when they are sealed with %j', async (keys) => {
    using peers = network(...keys);
    await expect(peers.call(address, 'exchange', ASKED, WITHIN)).rejects.toMatchObject({ reason: 'WRONG_KEY' });
  });

  test('are refused by a node that is not a member yet', async () => {
    handlers = undefined;
    using peers = network('new');
    await expect(peers.call(address, 'exchange', ASKED, WITHIN)).rejects.toMatchObject({ reason: 'STARTING' });
  });

  test('end when they are given up', async () => {
    const asked = Promise.withResolvers<void>();
    const exchange = (): Promise<never> => {
      asked.resolve();
      return new Promise(() => {});
    };
    handlers = { ...(handlers as PeerHandlers), exchange };
    using peers = network('new');
    const giveUp = new AbortController();
    const waiting = peers.call(address, 'exchange', ASKED, { ...WITHIN, signal: giveUp.signal });
    await asked.promise;
    giveUp.abort();
    await expect(waiting).rejects.toThrow();
  });
});
