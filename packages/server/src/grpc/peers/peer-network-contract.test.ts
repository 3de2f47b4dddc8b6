import type { PeerHandlers } from '../../ports/peer-network.ts';
import { type PeerWorld, peerContract } from '../../testing/peer-contract.ts';
import { noService, startServer } from '../testing/start-server.ts';
import { PeerNetwork } from './peer-network.ts';
import { PeerSeal } from './peer-seal.ts';
import { createPeerService } from './peer-service.ts';

async function overGrpc(): Promise<PeerWorld> {
  const handlers = () => world.handlers as PeerHandlers | undefined;
  const open = (port: number) => startServer(noService, { port }, [createPeerService(handlers, new PeerSeal(['key']))]);
  let server = await open(0);
  const { port } = server;
  const network = new PeerNetwork(new PeerSeal(['key']));
  const world: PeerWorld = {
    call: network.call,
    address: `127.0.0.1:${port}`,
    nowhere: '127.0.0.1:1',
    handlers: undefined,
    stop: async () => {
      await server[Symbol.asyncDispose]();
    },
    start: async () => {
      server = await open(port);
    },
    settle: (promise) => promise,
    pass: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    async [Symbol.asyncDispose]() {
      network[Symbol.dispose]();
      await server[Symbol.asyncDispose]();
    },
  };
  return world;
}

peerContract('gRPC', overGrpc);
