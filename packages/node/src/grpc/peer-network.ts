import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import { wireErrorOf } from '@taskmaster/client/transport';
import { PeerServiceService } from '@taskmaster/proto';
import type { CallPeer, PeerCallOptions, PeerCalls, PeerMethod } from '../ports/peer-network.ts';
import { channelOptions } from './channel-options.ts';
import type { PeerSeal } from './peer-seal.ts';
import { RelayedRefusal } from './status.ts';

/** A channel that nobody used for so long is closed, in ms: members come and go. */
const IDLE_MS = 10 * 60 * 1000;

interface Channel {
  readonly client: Client;
  usedAt: number;
}

/** Calls to other nodes over gRPC: one channel for each address. */
export class PeerNetwork implements Disposable {
  readonly call: CallPeer;
  readonly #seal: PeerSeal;
  readonly #channels = new Map<string, Channel>();
  readonly #sweeper: NodeJS.Timeout;

  constructor(seal: PeerSeal) {
    this.#seal = seal;
    this.call = (address, method, request, options) => this.#call(address, method, request, options);
    this.#sweeper = setInterval(() => this.#sweep(), IDLE_MS).unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#sweeper);
    for (const { client } of this.#channels.values()) client.close();
    this.#channels.clear();
  }

  #call<M extends PeerMethod>(
    address: string,
    method: M,
    request: PeerCalls[M][0],
    { timeoutMs, signal }: PeerCallOptions,
  ): Promise<PeerCalls[M][1]> {
    const { path, requestSerialize, responseDeserialize } = PeerServiceService[method] as unknown as {
      path: string;
      requestSerialize: (request: PeerCalls[M][0]) => Buffer;
      responseDeserialize: (bytes: Buffer) => PeerCalls[M][1];
    };
    const bytes = requestSerialize(request);
    const metadata = new Metadata();
    this.#seal.seal(path.slice(path.lastIndexOf('/') + 1), bytes, metadata);
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const made = this.#clientOf(address).makeUnaryRequest(
        path,
        (sent: Buffer) => sent,
        responseDeserialize,
        bytes,
        metadata,
        { deadline: Date.now() + timeoutMs },
        (error: ServiceError | null, answer?: PeerCalls[M][1]) => {
          signal?.removeEventListener('abort', onAbort);
          if (error === null && answer !== undefined) resolve(answer);
          else reject(failureOf(address, error));
        },
      );
      const onAbort = (): void => made.cancel();
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }

  #clientOf(address: string): Client {
    let channel = this.#channels.get(address);
    if (!channel) {
      channel = { client: new Client(address, credentials.createInsecure(), channelOptions), usedAt: 0 };
      this.#channels.set(address, channel);
    }
    channel.usedAt = performance.now();
    return channel.client;
  }

  #sweep(): void {
    for (const [address, { client, usedAt }] of this.#channels) {
      if (performance.now() - usedAt < IDLE_MS) continue;
      client.close();
      this.#channels.delete(address);
    }
  }
}

/** A member that did not answer, or whose answer was lost. */
export class PeerUnreachable extends Error {
  override readonly name = 'PeerUnreachable';
}

function failureOf(address: string, error: ServiceError | null): Error {
  const refusal = error && wireErrorOf(error);
  if (refusal) return new RelayedRefusal(refusal);
  return new PeerUnreachable(`${address} does not answer: ${error?.details || error?.message || 'an empty answer'}`, {
    cause: error,
  });
}
