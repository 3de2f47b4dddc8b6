import { keptLog } from '@taskmaster/engine/testing';
import { scriptedService } from '../testing/scripted-service.ts';
import { type UpstreamWorld, upstreamContract } from '../testing/upstream-contract.ts';
import { callService } from './local-calls.ts';

upstreamContract('a service of the same process', async () => {
  const log = keptLog();
  const world: UpstreamWorld = {
    upstream: {
      isLocal: () => true,
      unary: (_, method, request, options) => {
        const service = scriptedService((bytes, caller) => world.serve(bytes, caller));
        return callService(service, method, request, options, log);
      },
      stream: () => {
        throw new TypeError('calls are not streamed here');
      },
    },
    address: 'self:1',
    serve: async () => Buffer.alloc(0),
    settle: (promise) => promise,
    async [Symbol.asyncDispose]() {},
  };
  return world;
});
