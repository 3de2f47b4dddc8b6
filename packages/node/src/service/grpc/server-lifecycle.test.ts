import type { GrpcServer } from '@taskmaster/server/grpc';
import {
  acceptsAt,
  freePort,
  grpcClient,
  type LifecycleWorld,
  lifecycleContract,
  lifecycleTimeoutContract,
} from '@taskmaster/server/testing';
import { nodeServerFor } from '../../testing/start-node-server.ts';
import { openWatchedEngine } from '../../testing/watched-engine.ts';

const grpcServer = (timeoutMs: number) => async (): Promise<LifecycleWorld> => {
  const port = await freePort();
  const clients = new DisposableStack();
  let asked = Promise.withResolvers<void>();
  let deleted = Promise.withResolvers<number>();
  const deleteQueue = (): Promise<number> => {
    asked.resolve();
    return deleted.promise;
  };
  const engine = await openWatchedEngine({ deleteQueue });
  let server: GrpcServer | undefined;
  return {
    start: async () => {
      server = nodeServerFor(engine, { port });
      await server.start();
    },
    stop: async () => server?.stop(timeoutMs),
    accepts: () => acceptsAt(port),
    call: async () => {
      asked = Promise.withResolvers();
      deleted = Promise.withResolvers();
      const answered = clients.use(grpcClient(port)).deleteQueue({ queue: 'mail' });
      answered.catch(() => {});
      await asked.promise;
      return { answered, finish: () => deleted.resolve(1) };
    },
    settle: (promise) => promise,
    async [Symbol.asyncDispose]() {
      clients.dispose();
      await server?.stop(0);
    },
  };
};

lifecycleContract('GrpcServer', grpcServer(10_000));
lifecycleTimeoutContract('GrpcServer', grpcServer(50));
