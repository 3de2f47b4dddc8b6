import { Client, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { PeerServiceService, wireErrorOf } from '@taskmaster/proto';
import {
  type CallPeer,
  type PeerCallOptions,
  type PeerCalls,
  PeerMessageTooLongError,
  type PeerMethod,
  PeerUnreachableError,
} from '../../ports/peer-network.ts';
import { systemRandom } from '../../ports/system-random.ts';
import { detailsIn, RelayedRefusal } from '../../service/wire-errors.ts';
import { type ChannelSecurity, plainChannels } from '../channels/channel-credentials.ts';
import { addressesBehind, type LookUp, systemLookUp } from './any-node.ts';
import { type PeerSeal, type SealedChannel, wrongKey } from './peer-seal.ts';

/** A channel is closed when it has been idle for this long, in ms. */
const IDLE_MS = 10 * 60 * 1000;

interface Channel {
  readonly client: Client;
  readonly sealed: SealedChannel;
  usedAt: number;
}

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

/** Calls to other nodes over gRPC: one channel for each address. */
export class PeerNetwork implements Disposable {
  readonly call: CallPeer;
  readonly #seal: PeerSeal;
  readonly #lookUp: LookUp;
  readonly #security: ChannelSecurity;
  readonly #channels = new Map<string, Channel>();
  readonly #sweeper: NodeJS.Timeout;

  constructor(seal: PeerSeal, lookUp: LookUp = systemLookUp, security: ChannelSecurity = plainChannels) {
    this.#seal = seal;
    this.#security = security;
    this.#lookUp = lookUp;
    this.call = (address, method, request, options) =>
      options.anyNode
        ? this.#callAny(address, method, request, options)
        : this.#call(address, method, request, options);
    this.#sweeper = setInterval(() => this.#sweep(), IDLE_MS).unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#sweeper);
    for (const { client } of this.#channels.values()) client.close();
    this.#channels.clear();
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
      const { client, sealed } = this.#channelOf(address);
      const metadata = new Metadata({ waitForReady: waitForConnection });
      const call = sealed.seal(path.slice(path.lastIndexOf('/') + 1), bytes, metadata);
      const { error, message, trailers } = await send(client, path, bytes, metadata, deadline, signal);
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

  #channelOf(address: string): Channel {
    let channel = this.#channels.get(address);
    if (!channel) {
      const client = new Client(address, this.#security.credentials, this.#security.options);
      channel = { client, sealed: this.#seal.channel(), usedAt: 0 };
      this.#channels.set(address, channel);
    }
    channel.usedAt = performance.now();
    return channel;
  }

  #sweep(): void {
    for (const [address, { client, usedAt }] of this.#channels) {
      if (performance.now() - usedAt < IDLE_MS) continue;
      client.close();
      this.#channels.delete(address);
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
    const onAbort = (): void => made.cancel();
    signal?.addEventListener('abort', onAbort, { once: true });
    // This event comes last and has the trailers, which the callback does not get.
    made.on('status', ({ metadata: trailers }) => {
      signal?.removeEventListener('abort', onAbort);
      resolve({ ...ended, trailers });
    });
  });
}

function unreachable(address: string, error: ServiceError | null): Error {
  // gRPC ends its details with a note that is mostly empty.
  const details = error?.details.replace(/\.? Resolution note: *$/, '');
  const problem = details || error?.message || 'an empty answer';
  // Without our reason this comes from the gRPC client, which refuses an answer that is too long.
  if (error?.code === status.RESOURCE_EXHAUSTED) return tooLong(address, problem);
  return new PeerUnreachableError(`${address} does not answer: ${problem}`, { cause: error });
}

const tooLong = (address: string, problem: string): Error =>
  new PeerMessageTooLongError(`a message to or from ${address} is too long: ${problem}`);
