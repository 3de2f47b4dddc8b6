import { GossipBench } from '../testing/gossip-bench.ts';
import { membershipContract } from '../testing/membership-contract.ts';

membershipContract('gossip in its thread', async () => {
  const bench = new GossipBench();
  return {
    open: (self, seeds) => bench.openThread(self, seeds),
    until: async (condition) => void (await bench.until(condition)),
    [Symbol.asyncDispose]: () => bench.end(),
  };
});
