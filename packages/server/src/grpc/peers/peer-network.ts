import { type Client, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { systemRandom } from '@taskmaster/engine/ports';
import { connectionProblem, PeerServiceService, wireErrorOf } from '@taskmaster/proto';
import { detailsIn, RelayedRefusal } from '../../calls/wire-errors.ts';
import {
  type CallPeer,
  type PeerCallOptions,
  type PeerCalls,
  PeerMessageTooLongError,
  type PeerMethod,
  PeerUnreachableError,
} from '../../ports/peer-network.ts';
import { type ChannelSecurity, plainChannels } from '../channels/channel-credentials.ts';
import { ChannelPool } from '../channels/channel-pool.ts';
import { addressesBehind, type LookUp, systemLookUp } from './any-node.ts';
import { type PeerSeal, type SealedChannel, wrongKey } from './peer-seal.ts';

/** The end of a call, as gRPC reports it. */
interface Ended {
  readonly error: ServiceError | null;
  /** Undefined if there is an error. */
  readonly message: Buffer | undefined;
  readonly trailers: Metadata;
}

/** A method definition, as ts-proto generates it. */
interface Method<Q, R> {
  readonly path: string;
  readonly requestSerialize: (request: Q) => Buffer;
  readonly responseDeserialize: (bytes: Buffer) => R;
}

/** Calls to other nodes over gRPC. */
export class PeerNetwork implements Disposable {
  readonly call: CallPeer;
  readonly #lookUp: LookUp;
  readonly #channels: ChannelPool<SealedChannel>;

  constructor(seal: PeerSeal, lookUp: LookUp = systemLookUp, security: ChannelSecurity = plainChannels) {
    this.#channels = new ChannelPool(security, () => seal.channel());
    this.#lookUp = lookUp;
    this.call = (address, method, request, options) =>
      options.anyNode
        ? this.#callAny(address, method, request, options)
        : this.#call(address, method, request, options);
  }

  [Symbol.dispose](): void {
    this.#channels[Symbol.dispose]();
  }

  /** Calls the first node of a name that answers, in a random order. */
  async #callAny<M extends PeerMethod>(
    address: string,
    method: M,
    request: PeerCalls[M][0],
    options: PeerCallOptions,
  ): Promise<PeerCalls[M][1]> {
    const deadline = Date.now() + options.timeoutMs;
    let last: unknown;
    for (const one of await addressesBehind(address, this.#lookUp, systemRandom)) {
      const timeoutMs = deadline - Date.now();
      try {
        return await this.#call(one, method, request, { ...options, timeoutMs });
      } catch (error) {
        last = error;
        if (!(error instanceof PeerUnreachableError) || options.signal?.aborted || Date.now() >= deadline) break;
      }
    }
    throw last;
  }

  async #call<M extends PeerMethod>(
    address: string,
    method: M,
    request: PeerCalls[M][0],
    { timeoutMs, waitForConnection = false, signal }: PeerCallOptions,
  ): Promise<PeerCalls[M][1]> {
    const service = PeerServiceService[method] as unknown as Method<PeerCalls[M][0], PeerCalls[M][1]>;
    const { path } = service;
    const bytes = service.requestSerialize(request);
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      signal?.throwIfAborted();
      const channel = this.#channels.take(address);
      const { client, own: sealed } = channel;
      const metadata = new Metadata({ waitForReady: waitForConnection });
      const call = sealed.seal(path.slice(path.lastIndexOf('/') + 1), bytes, metadata);
      const sent = send(client, path, bytes, metadata, deadline, signal);
      const { error, message, trailers } = await sent.finally(() => this.#channels.release(channel));
      const refusal = error && wireErrorOf(error);
      const body = message ?? (refusal ? detailsIn(trailers) : undefined);
      // This refusal comes before the message is read, so it has no seal.
      if (refusal?.reason === 'REQUEST_TOO_LARGE') throw tooLong(address, refusal.message);
      if (body === undefined) throw unreachable(address, error);
      const proof = sealed.check(call, error?.code ?? status.OK, body, trailers);
      if (proof === 'forged') throw wrongKey(`what ${address} answers is not sealed with a key of this cluster`);
      if (!refusal) return service.responseDeserialize(body);
      // The node at this address has restarted since its last answer. It did not serve the call.
      if (refusal.reason === 'WRONG_KEY' && proof.run !== call.run) continue;
      throw new RelayedRefusal(refusal);
    }
  }
}

function send(
  client: Client,
  path: string,
  bytes: Buffer,
  metadata: Metadata,
  deadline: number,
  signal: AbortSignal | undefined,
): Promise<Ended> {
  const asIs = (buffer: Buffer): Buffer => buffer;
  return new Promise((resolve) => {
    let ended: Omit<Ended, 'trailers'> = { error: null, message: undefined };
    const made = client.makeUnaryRequest(path, asIs, asIs, bytes, metadata, { deadline }, (error, message) => {
      ended = { error, message };
    });
    // grpc-js tells the node only if it is not cancelled in the turn in which it was made.
    const onAbort = (): void => void setImmediate(() => made.cancel());
    signal?.addEventListener('abort', onAbort, { once: true });
    // This event comes last and has the trailers, which the callback does not get.
    made.on('status', ({ metadata: trailers }) => {
      signal?.removeEventListener('abort', onAbort);
      resolve({ ...ended, trailers });
    });
  });
}

/** What the gRPC client says of a request that it could not send. */
const NO_CONNECTION = 'No connection established';

function unreachable(address: string, error: ServiceError | null): Error {
  const details = error === null ? '' : connectionProblem(error.details);
  const problem = details || error?.message || 'an empty answer';
  // Without our reason this comes from the gRPC client, which refuses an answer that is too long.
  if (error?.code === status.RESOURCE_EXHAUSTED) return tooLong(address, problem);
  const maybeServed = error?.details.startsWith(NO_CONNECTION) !== true;
  return new PeerUnreachableError(`${address} does not answer: ${problem}`, maybeServed, { cause: error });
}

const tooLong = (address: string, problem: string): Error =>
  new PeerMessageTooLongError(`a message to or from ${address} is too long: ${problem}`);
