import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { hostname } from 'node:os';
import { keptLog } from '@taskmaster/engine/testing';
import { GossipListenError } from '@taskmaster/server/gossip';
import { createPeerService, PeerSeal } from '@taskmaster/server/grpc';
import type { PeerHandlers } from '@taskmaster/server/ports';
import { noService, startServer } from '@taskmaster/server/testing';
import { describe, expect, test } from 'vitest';
import { ProxyRefusedError } from './observed-routes.ts';
import { startProxy } from './proxy.ts';

const ANY_PORT = { grpcPort: 0, httpPort: 0, gossipPort: 0 };

/** Accepts connections and never answers, like a broken firewall. `connected` resolves with the first connection. */
async function blackHole() {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
  }).listen(0, '127.0.0.1');
  const connected = once(server, 'connection');
  await once(server, 'listening');
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    connected,
    [Symbol.dispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

describe('a proxy that reaches no node', () => {
  test('reports at its start that its gossip port is taken: it could never learn the holders', async () => {
    const other = createSocket('udp4');
    other.bind(0, '127.0.0.1');
    await once(other, 'listening');
    const settings = { ...ANY_PORT, join: ['127.0.0.1:1'], gossipPort: other.address().port };
    await expect(startProxy(settings, { log: keptLog() })).rejects.toThrow(GossipListenError);
    other.close();
    await once(other, 'close');
    await using proxy = await startProxy(settings, { log: keptLog() });
    expect(proxy.grpcAddress).toMatch(/:\d+$/);
  });

  test('tells who asks the name that it has in the cluster', async () => {
    await using proxy = await startProxy({ ...ANY_PORT, join: ['127.0.0.1:1'] }, { log: keptLog() });
    const me = (await (await fetch(`http://${proxy.httpAddress}/api/me`)).json()) as { server: { name: string } };
    expect(me.server.name).toBe(`${hostname()}:${proxy.grpcAddress.split(':').at(-1)}`);
  });

  test('stops at once, even if the nodes that it asks never answer', async () => {
    using first = await blackHole();
    using second = await blackHole();
    const join = [first.address, second.address, first.address];
    const proxy = await startProxy({ ...ANY_PORT, join }, { log: keptLog() });
    await first.connected;
    const began = performance.now();
    await proxy.stop();
    // Each of them is given two seconds.
    expect(performance.now() - began).toBeLessThan(1_500);
  });
});

test('a proxy whose protocol no member speaks is refused, with both releases', async () => {
  const release = { version: '9.0.0', protocolMin: 7, protocolMax: 8 };
  const cluster = { clusterId: 'cluster-1', partitions: 32, knowledge: { members: [], holders: [] } };
  const exchange = async () => ({ ...cluster, nodeId: 'id-a', nowMs: 0, wallMs: 0, mayCommit: true, release });
  const handlers = { exchange } as Partial<PeerHandlers> as PeerHandlers;
  const peers = createPeerService(() => handlers, new PeerSeal([]));
  await using member = await startServer(noService, {}, [peers]);
  const join = [`127.0.0.1:${member.port}`];
  await using proxy = await startProxy({ ...ANY_PORT, join }, { log: keptLog() });
  await expect(proxy.ready).rejects.toBeInstanceOf(ProxyRefusedError);
  await expect(proxy.ready).rejects.toThrow(`${join[0]}: release 9.0.0 speaks versions 7 to 8`);
});
