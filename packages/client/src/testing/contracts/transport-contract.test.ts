import { GrpcTransport } from '../../transport/grpc-transport.ts';
import { FakeServer } from '../fake-server.ts';
import { FakeTransport } from '../fake-transport.ts';
import { ManualTiming } from '../manual-timing.ts';
import { transportContract } from './transport-contract.ts';
import type { TransportWorld } from './transport-world.ts';

const overGrpc = (useStream: boolean) => async (): Promise<TransportWorld> => {
  await using opened = new AsyncDisposableStack();
  const server = opened.use(await FakeServer.start());
  const transport = opened.use(new GrpcTransport({ endpoints: server.endpoint, useStream }));
  const running = opened.move();
  return {
    transport,
    stall: () => {
      server.hold = new Promise(() => {});
    },
    settle: (promise) => promise,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
};

transportContract('GrpcTransport over a stream', overGrpc(true));
transportContract('GrpcTransport with calls of their own', overGrpc(false));

transportContract('FakeTransport', async () => {
  const timing = new ManualTiming();
  const transport = new FakeTransport(timing);
  return {
    transport,
    stall: () => {
      transport.silent = 'updates';
    },
    settle: async (promise) => {
      let isOver = false;
      const end = (): void => {
        isOver = true;
      };
      promise.then(end, end);
      for (let passed = 0; passed < 30_000 && !isOver; passed += 100) await timing.advance(100);
      return promise;
    },
    [Symbol.asyncDispose]: () => transport.close(),
  };
});
