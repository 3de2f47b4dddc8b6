import { keptLog, SeededRandom, VirtualTime } from '@taskmaster/engine/testing';
import { type NetworkedUpstreamWorld, networkedUpstreamContract, scriptedService } from '@taskmaster/proxy/testing';
import { CALM, FakeHost, SimNetwork } from '@taskmaster/server/testing';
import { SimUpstream } from './links.ts';

function simulated(seed: number): NetworkedUpstreamWorld {
  const time = new VirtualTime();
  const host = new FakeHost(time);
  const hostAt = (name: string): FakeHost | undefined => (name === 'b' ? host : undefined);
  const network = new SimNetwork(time, new SeededRandom(seed), hostAt, { ...CALM, latencyMs: 5 });
  const service = scriptedService((request, caller) => world.serve(request, caller));
  const nodes = new Map([['b', { service }]]);
  const world: NetworkedUpstreamWorld = {
    upstream: new SimUpstream({ network, nodes }, 'client', keptLog()),
    address: 'b:1',
    nowhere: 'c:1',
    serve: async () => Buffer.alloc(0),
    stop: async () => host.stop(),
    settle: (promise) => time.run(promise),
    async [Symbol.asyncDispose]() {},
  };
  return world;
}

// Chance decides whether the caller notices that a process ended or only its silence.
for (const seed of [1, 2, 3]) {
  networkedUpstreamContract(`a link of the simulation (seed ${seed})`, async () => simulated(seed));
}
