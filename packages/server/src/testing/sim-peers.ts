import { Refusal } from '@taskmaster/engine/domain';
import { type Log, sleep } from '@taskmaster/engine/ports';
import type { VirtualClock } from '@taskmaster/engine/testing';
import { PeerServiceService } from '@taskmaster/proto';
import { unlimitedAccess } from '../access/caller-access.ts';
import type { UnaryCaller } from '../calls/raw-service.ts';
import { RelayedRefusal, refusalOf, toWireError } from '../calls/wire-errors.ts';
import { PeerSeal } from '../grpc/peers/peer-seal.ts';
import { createPeerService } from '../grpc/peers/peer-service.ts';
import { RECEIVE_BYTES } from '../grpc/receiving/received-messages.ts';
import {
  type CallPeer,
  type PeerCallOptions,
  type PeerHandlers,
  PeerMessageTooLongError,
  type PeerMethod,
  PeerUnreachableError,
} from '../ports/peer-network.ts';
import { LinkBrokenError, type SimNetwork } from './sim-network.ts';

/** Interval at which a call that waits for a connection tries to connect, in ms. */
const CONNECT_MS = 100;

const OTHER_NODE: UnaryCaller = {
  address: 'sim:1',
  routed: false,
  forwarded: false,
  access: unlimitedAccess,
  gone: false,
  signal: undefined,
  deadline: Number.POSITIVE_INFINITY,
};

const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** Answers the encoded calls of other nodes. Rejects only with a `Refusal`. */
export type ServePeer = (method: PeerMethod, request: Buffer) => Promise<Buffer>;

/** One call to a node. */
export interface PeerPassage {
  readonly address: string;
  readonly method: PeerMethod;
  readonly request: Buffer;
  readonly options: PeerCallOptions;
}

/** Answers calls like a real node: its peer service decodes and encodes the messages. */
export function servePeer(handlers: () => PeerHandlers | undefined, log: Log): ServePeer {
  const { unary } = createPeerService(handlers, new PeerSeal([]));
  return async (method, request) => {
    const { path } = PeerServiceService[method];
    const handler = unary[path.slice(path.lastIndexOf('/') + 1)];
    if (handler === undefined) throw new TypeError(`there is no method ${method}`);
    try {
      return asBuffer(await handler(request, OTHER_NODE));
    } catch (thrown) {
      throw new RelayedRefusal(toWireError(refusalOf(thrown, log)));
    }
  };
}

/**
 * Calls between nodes over a network of a test. Messages are encoded, so that the two sides share no objects. `carry`
 * resolves with the answer of a `ServePeer`. If it rejects with anything but a refusal, the call rejects with a
 * `PeerUnreachableError`.
 */
export function callPeersOver(carry: (passage: PeerPassage) => Promise<Buffer>): CallPeer {
  return async (address, method, message, options) => {
    options.signal?.throwIfAborted();
    const { requestSerialize, responseDeserialize } = PeerServiceService[method];
    const request = (requestSerialize as (message: unknown) => Buffer)(message);
    if (request.byteLength > RECEIVE_BYTES) throw new PeerMessageTooLongError(`a message to ${address} is too long`);
    let reply: Buffer;
    try {
      reply = await carry({ address, method, request, options });
    } catch (error) {
      if (error instanceof Refusal || error instanceof PeerMessageTooLongError) throw error;
      const problem = error instanceof Error ? error.message : String(error);
      const maybeServed = !(error instanceof LinkBrokenError) || error.maybeServed;
      throw new PeerUnreachableError(`${address} does not answer: ${problem}`, maybeServed, { cause: error });
    }
    return responseDeserialize(reply) as never;
  };
}

export interface SimPeersOptions {
  readonly network: SimNetwork;
  /** The host at an address. Several addresses may lead to one host. `anyNode`: see `PeerCallOptions`. */
  readonly hostAt: (address: string, anyNode: boolean) => string;
  /** Serves the calls to a host. Undefined if the host does not exist. */
  readonly serveAt: (host: string) => ServePeer | undefined;
}

/** Calls between the nodes of a simulated network. */
export class SimPeers {
  readonly #options: SimPeersOptions;

  constructor(options: SimPeersOptions) {
    this.#options = options;
  }

  /** The calls of one run of a process. After the end of its clock they never settle. */
  callFrom(from: string, clock: VirtualClock): CallPeer {
    return callPeersOver(async (passage) => {
      const { timeoutMs, waitForConnection = false, signal } = passage.options;
      const deadline = clock.now() + timeoutMs;
      for (;;) {
        try {
          return await this.#carry(from, clock, passage, deadline - clock.now());
        } catch (error) {
          const isDown = error instanceof LinkBrokenError && !error.maybeServed;
          if (!isDown || !waitForConnection || clock.now() + CONNECT_MS >= deadline) throw error;
          await sleep(clock, CONNECT_MS, signal);
        }
      }
    });
  }

  #carry(from: string, clock: VirtualClock, passage: PeerPassage, timeoutMs: number): Promise<Buffer> {
    if (clock.isStopped) return new Promise(() => {});
    const { network, hostAt, serveAt } = this.#options;
    const { address, method, request, options } = passage;
    const to = hostAt(address, options.anyNode ?? false);
    return network.carry(
      { from, to, what: method, timeoutMs, signal: options.signal, caller: clock, mayDouble: true },
      () => serveAt(to)?.(method, request) ?? Promise.reject(new LinkBrokenError(`${to} is down`, false)),
    );
  }
}
