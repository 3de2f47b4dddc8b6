import { keptLog, VirtualTime } from '@taskmaster/engine/testing';
import type { PeerHandlers } from '@taskmaster/server/ports';
import { type PeerWorld, peerContract, servePeer } from '@taskmaster/server/testing';
import { FaultyLink, type LinkedRun } from './faulty-link.ts';

peerContract('the link between two nodes of a test', async () => {
  const time = new VirtualTime();
  const startedRun = (): LinkedRun => ({
    serve: servePeer(() => world.handlers as PeerHandlers | undefined, keptLog()),
  });
  let run: LinkedRun | undefined = startedRun();
  const link = new FaultyLink({ time, faults: {}, runAt: (address) => (address === 'b' ? run : undefined) });
  const world: PeerWorld = {
    call: link.callFrom('a'),
    address: 'b',
    nowhere: 'c',
    handlers: undefined,
    stop: async () => {
      run = undefined;
    },
    start: async () => {
      run = startedRun();
    },
    settle: (promise) => time.run(promise),
    pass: (ms) => time.advance(ms),
    async [Symbol.asyncDispose]() {},
  };
  return world;
});
