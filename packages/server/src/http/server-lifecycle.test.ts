import { Refusal } from '@taskmaster/engine/domain';
import { toWireError } from '../calls/wire-errors.ts';
import { type LifecycleWorld, lifecycleContract, lifecycleTimeoutContract } from '../testing/lifecycle-contract.ts';
import { acceptsAt, freePort } from '../testing/ports.ts';
import { HttpServer } from './server.ts';

const httpServer = async (): Promise<LifecycleWorld> => {
  const port = await freePort();
  let asked = Promise.withResolvers<void>();
  let finished = Promise.withResolvers<void>();
  const slow = async () => {
    asked.resolve();
    await finished.promise;
    return { status: 200, type: 'text/plain', body: 'done', headers: {} };
  };
  const deps = { routes: new Map([['/slow', slow]]), toWireError: () => toWireError(new Refusal('INTERNAL', 'no')) };
  let server: HttpServer | undefined;
  return {
    start: async () => {
      server = new HttpServer({ host: '127.0.0.1', port }, deps);
      await server.start();
    },
    stop: async () => server?.stop(),
    accepts: () => acceptsAt(port),
    call: async () => {
      asked = Promise.withResolvers();
      finished = Promise.withResolvers();
      const answered = fetch(`http://127.0.0.1:${port}/slow`).then((reply) => reply.text());
      answered.catch(() => {});
      await asked.promise;
      return { answered, finish: () => finished.resolve() };
    },
    settle: (promise) => promise,
    async [Symbol.asyncDispose]() {
      await server?.stop();
    },
  };
};

lifecycleContract('HttpServer', httpServer);
lifecycleTimeoutContract('HttpServer', httpServer);
