import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { keptLog } from '@taskmaster/engine/testing';
import { expect, test } from 'vitest';
import { Connections, type ConnectionsOptions } from './connections.ts';

async function listen(change: Partial<ConnectionsOptions> = {}, isMember = false) {
  const log = keptLog();
  const served: Socket[] = [];
  const connections = new Connections(
    { host: '127.0.0.1', port: 0, most: 3, mostPerAddress: 3, forMembers: 1, silenceMs: 60_000, ...change },
    { log, serve: (socket) => served.push(socket), isMember: () => isMember },
  );
  const port = await connections.listen();
  return {
    log,
    served,
    connections,
    open: async (): Promise<Socket> => {
      const socket = connect(port, '127.0.0.1');
      await once(socket, 'connect');
      return socket;
    },
    async [Symbol.asyncDispose]() {
      connections.stopAccepting();
      await connections.closed(0);
    },
  };
}

/** What a connection receives until it ends. */
async function read(socket: Socket): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of socket) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

test.each([
  ['in all', { mostPerAddress: 10 }, '3 connections are open (grpc.maxConnections)'],
  ['from one address', { most: 10 }, '3 connections from this address are open (grpc.maxConnectionsPerAddress)'],
])('connections above the limit %s are refused with a reason that clients show', async (_, change, reason) => {
  await using server = await listen(change);
  const open = await Promise.all(Array.from({ length: 3 }, server.open));
  const refused = await read(await server.open());
  expect(refused.toString('latin1')).toContain(reason);
  expect(server.connections).toMatchObject({ size: 3, refused: 1 });
  expect(server.log.lines).toMatchObject([{ level: 'warn', message: `connection refused: ${reason}` }]);
  open[0]?.destroy();
  await expect.poll(() => server.connections.size).toBe(2);
  await server.open();
  await expect.poll(() => server.connections.size).toBe(3);
});

test('members may open further connections', async () => {
  await using server = await listen({}, true);
  await Promise.all(Array.from({ length: 4 }, server.open));
  await expect.poll(() => server.connections.size).toBe(4);
  expect(await read(await server.open())).not.toHaveLength(0);
});

test('a connection that sends nothing is closed after a time', async () => {
  await using server = await listen({ silenceMs: 100 });
  const [silent, busy] = await Promise.all([server.open(), server.open()]);
  busy.write('PRI');
  await once(silent.resume(), 'close');
  expect(busy.closed).toBe(false);
});
