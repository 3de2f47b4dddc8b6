import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Metadata } from '@grpc/grpc-js';
import { Refusal } from '@taskmaster/engine/domain';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { PeerHandlers } from '../../ports/peer-network.ts';
import { noService, startServer, type TestServer } from '../testing/start-server.ts';
import { PeerNetwork } from './peer-network.ts';
import { PeerSeal } from './peer-seal.ts';
import { createPeerService } from './peer-service.ts';

const WITHIN = { timeoutMs: 5_000 };
const ANSWER = {
  knowledge: { members: [], holders: [] },
  nodeId: 'b',
  clusterId: 'c',
  partitions: 256,
  nowMs: 5,
  wallMs: 5,
  mayCommit: true,
  release: undefined,
};
const ASKED = { clusterId: 'c', from: 'a', knowledge: { members: [], holders: [] }, release: undefined };

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
    server = await startServer(noService, {}, others);
    address = `127.0.0.1:${server.port}`;
  });
  afterEach(() => server[Symbol.asyncDispose]());

  test('have a request and an answer, sealed with any accepted key', async () => {
    for (const key of ['new', 'old']) {
      using peers = network(key);
      expect(await peers.call(address, 'exchange', ASKED, WITHIN)).toEqual(ANSWER);
    }
  });

  test('are direct, although the environment names an HTTP proxy', async () => {
    const proxy = createServer();
    const asked: string[] = [];
    proxy.on('connect', ({ url = '' }, socket) => {
      asked.push(url);
      socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const { port } = proxy.address() as AddressInfo;
    for (const name of ['http_proxy', 'https_proxy', 'grpc_proxy']) vi.stubEnv(name, `http://127.0.0.1:${port}`);
    try {
      using peers = network('new');
      expect(await peers.call(address, 'exchange', ASKED, WITHIN)).toEqual(ANSWER);
      expect(asked).toEqual([]);
    } finally {
      vi.unstubAllEnvs();
      proxy.close();
    }
  });

  test('ask any node of a name, and the next one if it does not answer', async () => {
    const asked: string[] = [];
    const lookUp = async (host: string) => {
      asked.push(host);
      // Nothing listens at the first address.
      return ['127.0.0.2', '127.0.0.1'];
    };
    using peers = new PeerNetwork(new PeerSeal(['new']), lookUp);
    for (let at = 0; at < 10; at++) {
      const options = { ...WITHIN, anyNode: true };
      expect(await peers.call(`nodes:${server.port}`, 'exchange', ASKED, options)).toEqual(ANSWER);
    }
    expect(asked).toEqual(Array.from({ length: 10 }, () => 'nodes'));
  });

  test.each([[[]], [['another']]])('are refused when they are sealed with %j', async (keys) => {
    using peers = network(...keys);
    await expect(peers.call(address, 'exchange', ASKED, WITHIN)).rejects.toMatchObject({ reason: 'WRONG_KEY' });
  });

  describe('are sealed in both directions', () => {
    /** A server that answers other calls than the client has made. */
    async function impostor(...keys: string[]): Promise<TestServer> {
      const others = [createPeerService(() => handlers as PeerHandlers, new PeerSeal(keys))];
      return startServer(noService, {}, others);
    }

    test.each([[[]], [['another']]])('an answer of a server that has the keys %j is not believed', async (keys) => {
      await using other = await impostor(...keys);
      using peers = network('new', 'old');
      const asked = peers.call(`127.0.0.1:${other.port}`, 'exchange', ASKED, WITHIN);
      await expect(asked).rejects.toMatchObject({ name: 'Refusal', reason: 'WRONG_KEY' });
    });

    test('nor is its refusal accepted', async () => {
      await using other = await impostor();
      using peers = network('new');
      const request = { transfer: 't', sequence: 1, rows: [] };
      const asked = peers.call(`127.0.0.1:${other.port}`, 'sendRows', request, WITHIN);
      await expect(asked).rejects.toMatchObject({ reason: 'WRONG_KEY' });
    });

    test('nor is a genuine answer accepted that was altered, or that belongs to another call', () => {
      const node = new PeerSeal(['new']);
      const channel = node.channel();
      const ask = (body: string) => {
        const metadata = new Metadata();
        const call = channel.seal('Exchange', Buffer.from(body), metadata);
        const trailers = new Metadata();
        const { sign } = node.admit('Exchange', Buffer.from(body), metadata);
        sign?.(trailers, 0, Buffer.from('yes'));
        return { call, trailers };
      };
      const first = ask('first');
      const second = ask('second');
      expect(channel.check(first.call, 0, Buffer.from('no'), first.trailers)).toBe('forged');
      expect(channel.check(first.call, 13, Buffer.from('yes'), first.trailers)).toBe('forged');
      expect(channel.check(second.call, 0, Buffer.from('yes'), first.trailers)).toBe('forged');
      expect(channel.check(first.call, 0, Buffer.from('yes'), first.trailers)).not.toBe('forged');
    });

    test('an intercepted call is not served a second time, nor by another run of the node', () => {
      const keys = ['new'];
      const [before, after] = [new PeerSeal(keys), new PeerSeal(keys)];
      const channel = before.channel();
      const body = Buffer.from('an offer');
      const sealed = () => {
        const metadata = new Metadata();
        return { metadata, call: channel.seal('OfferPartition', body, metadata) };
      };
      const admit = (node: PeerSeal, metadata: Metadata) => node.admit('OfferPartition', body, metadata);
      const stranger = sealed();
      const greeting = admit(before, stranger.metadata);
      expect(greeting.refusal).toMatchObject({ message: expect.stringContaining('another run') });
      const trailers = new Metadata();
      greeting.sign?.(trailers, 16, body);
      expect(channel.check(stranger.call, 16, body, trailers)).not.toBe('forged');
      const known = sealed();
      expect(admit(before, known.metadata).refusal).toBeUndefined();
      expect(admit(before, known.metadata).refusal).toMatchObject({ message: expect.stringContaining('made before') });
      expect(admit(after, known.metadata).refusal).toMatchObject({ message: expect.stringContaining('another run') });
    });

    test('calls to a node continue after its restart', async () => {
      using peers = network('new');
      await peers.call(address, 'exchange', ASKED, WITHIN);
      const { port } = server;
      await server[Symbol.asyncDispose]();
      const others = [createPeerService(() => handlers as PeerHandlers, new PeerSeal(['new']))];
      server = await startServer(noService, { port }, others);
      await vi.waitFor(
        async () => expect(await peers.call(address, 'exchange', ASKED, WITHIN)).toEqual(ANSWER),
        10_000,
      );
    });
  });
});
