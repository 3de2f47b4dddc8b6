import type { StreamOperation, StreamReply } from '@taskmaster/server/calls';
import { startServer } from '@taskmaster/server/testing';
import { scriptedService } from '../testing/scripted-service.ts';
import { type StreamWorld, streamContract } from '../testing/stream-contract.ts';
import { type NetworkedUpstreamWorld, networkedUpstreamContract } from '../testing/upstream-contract.ts';
import { NodePool } from './node-pool.ts';

networkedUpstreamContract('NodePool', async () => {
  const service = scriptedService((request, caller) => world.serve(request, caller));
  const server = await startServer(service);
  const upstream = new NodePool();
  const world: NetworkedUpstreamWorld = {
    upstream,
    address: `127.0.0.1:${server.port}`,
    nowhere: '127.0.0.1:1',
    serve: async () => Buffer.alloc(0),
    stop: async () => {
      await server[Symbol.asyncDispose]();
    },
    settle: (promise) => promise,
    async [Symbol.asyncDispose]() {
      upstream[Symbol.dispose]();
      await server[Symbol.asyncDispose]();
    },
  };
  return world;
});

streamContract('NodePool', async (): Promise<StreamWorld> => {
  const received: Uint8Array[] = [];
  const answers: (() => void)[] = [];
  let closed = 0;
  const read = (message: Buffer): readonly StreamOperation[] => {
    received.push(Buffer.from(message));
    const { promise, resolve } = Promise.withResolvers<StreamReply>();
    answers.push(() => resolve({ $case: 'update', value: { enqueued: [], renewed: [], released: [], refused: [] } }));
    return [{ kind: 'update', id: received.length, run: () => promise }];
  };
  const service = scriptedService(
    async () => Buffer.alloc(0),
    () => ({ read, hold: () => {}, close: () => closed++ }),
  );
  const server = await startServer(service);
  const pool = new NodePool();
  return {
    open: (listener) => pool.stream(`127.0.0.1:${server.port}`, { peer: { address: 'me:1', principal: '' } }, listener),
    connect: () => {},
    received,
    answer: () => answers.shift()?.(),
    get closed() {
      return closed;
    },
    stop: async () => {
      await server[Symbol.asyncDispose]();
    },
    async [Symbol.asyncDispose]() {
      pool[Symbol.dispose]();
      await server[Symbol.asyncDispose]();
    },
  };
});
