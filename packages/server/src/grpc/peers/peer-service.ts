import { Refusal } from '@taskmaster/engine/domain';
import { type Method, PeerServiceService } from '@taskmaster/proto';
import type { UnaryHandler } from '../../calls/raw-service.ts';
import { unaryMethod } from '../../calls/unary-method.ts';
import type { PeerCalls, PeerHandlers, PeerMethod } from '../../ports/peer-network.ts';
import type { UnaryService } from '../unary-service.ts';
import type { PeerSeal } from './peer-seal.ts';

/** Every method with its full name in gRPC. */
const peerMethods = Object.entries(PeerServiceService).map(([method, { path }]) => {
  const [, service = '', name = ''] = path.split('/');
  return { method: method as PeerMethod, service, name };
});

/** How members prove with certificates that they are members. */
export interface MemberCertificates {
  /** The name in the certificates of all members. Empty: every certificate, and none, will do. */
  readonly name: string;
  /** The names in the certificate of the client of a connection. */
  readonly namesOf: (connection: string) => readonly string[];
}

const ANY_CERTIFICATE: MemberCertificates = { name: '', namesOf: () => [] };

/** The service for calls of other nodes. `handlers` returns undefined until this node is a member. */
export function createPeerService(
  handlers: () => PeerHandlers | undefined,
  seal: PeerSeal,
  certificates: MemberCertificates = ANY_CERTIFICATE,
): UnaryService {
  const unary: Record<string, UnaryHandler> = {};
  for (const { method, name } of peerMethods) unary[name] = answerWith(method, handlers);
  const [first] = peerMethods;
  return {
    name: first?.service ?? '',
    unary,
    admit: (method, request, metadata, connection) => {
      const admission = seal.admit(method, request, metadata);
      if (admission.refusal !== undefined || isMember(certificates, connection)) return admission;
      return { ...admission, refusal: notCertified(certificates.name) };
    },
  };
}

const isMember = ({ name, namesOf }: MemberCertificates, connection: string): boolean =>
  name === '' || namesOf(connection).includes(name);

const notCertified = (name: string): Refusal =>
  new Refusal('UNAUTHENTICATED', `the caller shows no certificate with the name of members, ${name} (tls.peerName)`);

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
