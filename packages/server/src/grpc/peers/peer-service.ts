import { PeerServiceService } from '@taskmaster/proto';
import { Refusal } from '../../domain/refusal.ts';
import type { PeerCalls, PeerHandlers, PeerMethod } from '../../ports/peer-network.ts';
import type { UnaryHandler } from '../../service/raw-service.ts';
import { type Method, unaryMethod } from '../../service/unary-method.ts';
import type { UnaryService } from '../unary-service.ts';
import type { PeerSeal } from './peer-seal.ts';

/** Every method with its full name in gRPC. */
const peerMethods = Object.entries(PeerServiceService).map(([method, { path }]) => {
  const [, service = '', name = ''] = path.split('/');
  return { method: method as PeerMethod, service, name };
});

/** The service for calls of other nodes. `handlers` returns undefined until this node is a member. */
export function createPeerService(handlers: () => PeerHandlers | undefined, seal: PeerSeal): UnaryService {
  const unary: Record<string, UnaryHandler> = {};
  for (const { method, name } of peerMethods) unary[name] = answerWith(method, handlers);
  const [first] = peerMethods;
  return {
    name: first?.service ?? '',
    unary,
    admit: (method, request, metadata) => seal.admit(method, request, metadata),
  };
}

function answerWith<M extends PeerMethod>(method: M, handlers: () => PeerHandlers | undefined): UnaryHandler {
  return unaryMethod(
    PeerServiceService[method] as unknown as Method<PeerCalls[M][0], PeerCalls[M][1]>,
    async (request) => {
      const handler = handlers()?.[method];
      if (handler === undefined) throw new Refusal('STARTING', 'the node is not a member yet');
      return handler(request);
    },
  );
}
