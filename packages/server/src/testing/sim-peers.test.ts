import { keptLog, SeededRandom, VirtualClock, VirtualTime } from '@taskmaster/engine/testing';
import type { PeerHandlers } from '../ports/peer-network.ts';
import { FakeHost } from './fake-host.ts';
import { type PeerWorld, peerContract } from './peer-contract.ts';
import { CALM, SimNetwork } from './sim-network.ts';
import { SimPeers, servePeer } from './sim-peers.ts';

function simulated(seed: number): PeerWorld {
  const time = new VirtualTime();
  const host = new FakeHost(time);
  const hostAt = (name: string): FakeHost | undefined => (name === 'b' ? host : undefined);
  const network = new SimNetwork(time, new SeededRandom(seed), hostAt, { ...CALM, latencyMs: 5 });
  const serve = servePeer(() => world.handlers as PeerHandlers | undefined, keptLog());
  const peers = new SimPeers({
    network,
    hostAt: (address) => address.slice(0, address.indexOf(':')),
    serveAt: (name) => (name === 'b' ? serve : undefined),
  });
  const world: PeerWorld = {
    call: peers.callFrom('a', new VirtualClock({ time })),
    address: 'b:1',
    nowhere: 'c:1',
    handlers: undefined,
    stop: async () => host.stop(),
    start: async () => {
      host.isUp = true;
    },
    settle: (promise) => time.run(promise),
    pass: (ms) => time.advance(ms),
    async [Symbol.asyncDispose]() {},
  };
  return world;
}

// Chance decides whether the caller notices that a process ended or only its silence.
for (const seed of [1, 2, 3]) peerContract(`a simulated network (seed ${seed})`, async () => simulated(seed));
