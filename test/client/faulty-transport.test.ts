import { transportContract } from '@taskmaster/client/testing';
import { transportSetUp, VirtualTiming } from './support/client-set-up.ts';

transportContract('FaultyTransport on an engine in memory', async () => {
  const timing = new VirtualTiming();
  const { transport } = transportSetUp(timing);
  return {
    transport,
    stall: () => {
      transport.silent = 'updateTasks';
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
