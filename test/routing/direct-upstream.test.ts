import { keptLog, VirtualClock } from '@taskmaster/engine/testing';
import { type NetworkedUpstreamWorld, networkedUpstreamContract, scriptedService } from '@taskmaster/proxy/testing';
import { DirectUpstream } from './support/direct-upstream.ts';

networkedUpstreamContract('DirectUpstream', async () => {
  const clock = new VirtualClock();
  const service = scriptedService((request, caller) => world.serve(request, caller));
  let isUp = true;
  const upstream = new DirectUpstream({
    serviceAt: (address) => (isUp && address === 'b:1' ? service : undefined),
    passage: () => ({ lost: false, delayMs: 1 }),
    clock,
    log: keptLog(),
    lossMs: 40,
  });
  const world: NetworkedUpstreamWorld = {
    upstream,
    address: 'b:1',
    nowhere: 'c:1',
    serve: async () => Buffer.alloc(0),
    stop: async () => {
      isUp = false;
    },
    settle: (promise) => clock.time.run(promise),
    async [Symbol.asyncDispose]() {},
  };
  return world;
});
