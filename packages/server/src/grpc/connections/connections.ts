import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import type { Log } from '@taskmaster/engine/ports';
import type { Tls } from '../../tls/tls.ts';
import { SecureSockets } from './secure-sockets.ts';

/** Default of `silenceMs`. */
const SILENCE_MS = 10_000;
/** A refused connection is closed after this time, in ms, even if its peer has not read the reason. */
const FAREWELL_MS = 1_000;
/** A refusal is logged at most this often, in ms. The metric counts all of them. */
const SAY_MS = 10_000;

export interface ConnectionsOptions {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  /** Limit of the open connections. */
  readonly most: number;
  /** Limit of the open connections from one address. */
  readonly mostPerAddress: number;
  /** Further connections that only members may open. */
  readonly forMembers: number;
  /** A connection must send something within this time, in ms. Default: 10 s. */
  readonly silenceMs?: number;
}

export interface ConnectionsDeps {
  readonly log: Log;
  /** Serves a connection, which is through its TLS handshake. */
  readonly serve: (socket: Socket) => void;
  /** Undefined: the connections are plain text. */
  readonly tls?: Tls | undefined;
  /** Whether members of the cluster have this address. */
  readonly isMember: (address: string) => boolean;
  /** Called with the name of each connection that was closed. */
  readonly onClosed?: (connection: string) => void;
}

/** Accepts the connections of a server, up to its limits, and knows them. */
export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #deps: ConnectionsDeps;
  readonly #listener = createServer({ noDelay: true }, (socket) => this.#accept(socket));
  /** By the name that grpc-js gives to the peer of a call. */
  readonly #open = new Map<string, Socket>();
  readonly #perAddress = new Map<string, number>();
  /** The names in the certificates of clients. */
  readonly #names = new Map<string, readonly string[]>();
  readonly #secure: SecureSockets | undefined;
  readonly #allClosed = Promise.withResolvers<void>();
  /** Connections that have sent nothing yet, with the time when each was accepted, in ms. */
  readonly #silent = new Map<Socket, number>();
  #look: NodeJS.Timeout | undefined;
  #closing = false;
  #refused = 0;
  #saidAt = Number.NEGATIVE_INFINITY;

  constructor(options: ConnectionsOptions, deps: ConnectionsDeps) {
    this.#options = options;
    this.#deps = deps;
    const { tls, log, serve } = deps;
    this.#secure =
      tls &&
      new SecureSockets({
        tls,
        log,
        serve: (socket, names) => {
          if (names.length > 0) this.#names.set(nameOf(socket), names);
          serve(socket);
        },
      });
  }

  get #silenceMs(): number {
    return this.#options.silenceMs ?? SILENCE_MS;
  }

  /** Number of open connections. */
  get size(): number {
    return this.#open.size;
  }

  isOpen(connection: string): boolean {
    return this.#open.has(connection);
  }

  /** Number of connections that were refused because of the limits. */
  get refused(): number {
    return this.#refused;
  }

  /** Number of TLS handshakes since the start. Undefined: the connections are plain text. */
  get handshakes(): { readonly completed: number; readonly failed: number } | undefined {
    return this.#secure?.handshakes;
  }

  /** The names in the certificate of the client of a connection. */
  certificateNames(connection: string): readonly string[] {
    return this.#names.get(connection) ?? [];
  }

  /** Resolves with the port. Rejects if it cannot be used. */
  async listen(): Promise<number> {
    const { host, port } = this.#options;
    this.#listener.listen({ host, port });
    await once(this.#listener, 'listening');
    // A process without free descriptors cannot accept. libuv closes such a connection, and the server goes on.
    this.#listener.on('error', (err) => this.#deps.log.warn({ err }, 'cannot accept connections'));
    this.#look = setInterval(() => this.#closeSilent(), this.#silenceMs / 10).unref();
    return (this.#listener.address() as AddressInfo).port;
  }

  /** Closes one connection. */
  cut(connection: string): void {
    this.#open.get(connection)?.destroy();
  }

  /** Accepts no more connections. */
  stopAccepting(): void {
    this.#closing = true;
    this.#listener.close();
    if (this.#open.size === 0) this.#allClosed.resolve();
  }

  /** Resolves when the last connection is closed. After `graceMs` all that are open are closed. */
  async closed(graceMs: number): Promise<void> {
    const force = setTimeout(() => {
      for (const socket of this.#open.values()) socket.destroy();
    }, graceMs);
    if (this.#open.size > 0) await this.#allClosed.promise;
    clearTimeout(force);
    clearInterval(this.#look);
    this.#secure?.[Symbol.dispose]();
  }

  #accept(socket: Socket): void {
    const { remoteAddress: address = '' } = socket;
    socket.on('error', (err) => this.#deps.log.debug({ err, address }, 'connection broke'));
    const problem = this.#problemOf(address);
    if (problem !== undefined) {
      this.#refuse(socket, address, problem);
      return;
    }
    const connection = nameOf(socket);
    this.#open.set(connection, socket);
    this.#perAddress.set(address, (this.#perAddress.get(address) ?? 0) + 1);
    this.#silent.set(socket, performance.now());
    socket.once('close', () => this.#closed(connection, address, socket));
    if (this.#secure === undefined) this.#deps.serve(socket);
    else this.#secure.take(socket);
  }

  #problemOf(address: string): string | undefined {
    const { most, mostPerAddress, forMembers } = this.#options;
    const from = this.#perAddress.get(address) ?? 0;
    if (this.#open.size < most && from < mostPerAddress) return undefined;
    if (this.#open.size < most + forMembers && this.#deps.isMember(address)) return undefined;
    return from >= mostPerAddress
      ? `${mostPerAddress} connections from this address are open (grpc.maxConnectionsPerAddress)`
      : `${most} connections are open (grpc.maxConnections)`;
  }

  #refuse(socket: Socket, address: string, problem: string): void {
    this.#refused++;
    // The client reads it as the reason for the end of its connection. A descriptor must not wait for a slow one.
    socket.write(refusingBytes(problem), () => socket.destroy());
    setTimeout(() => socket.destroy(), FAREWELL_MS).unref();
    const now = performance.now();
    if (now - this.#saidAt < SAY_MS) return;
    this.#saidAt = now;
    this.#deps.log.warn({ address, refused: this.#refused }, `connection refused: ${problem}`);
  }

  #closed(connection: string, address: string, socket: Socket): void {
    this.#open.delete(connection);
    this.#deps.onClosed?.(connection);
    this.#silent.delete(socket);
    this.#names.delete(connection);
    const left = (this.#perAddress.get(address) ?? 1) - 1;
    if (left > 0) this.#perAddress.set(address, left);
    else this.#perAddress.delete(address);
    if (this.#closing && this.#open.size === 0) this.#allClosed.resolve();
  }

  /** Closes connections that have sent nothing for too long. */
  #closeSilent(): void {
    const before = performance.now() - this.#silenceMs;
    for (const [socket, acceptedAt] of this.#silent) {
      if (socket.bytesRead > 0) this.#silent.delete(socket);
      else if (acceptedAt < before) socket.destroy();
    }
  }
}

/** The name that grpc-js gives to the peer of a call. */
const nameOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress}:${remotePort}`;

const SETTINGS = 4;
const GOAWAY = 7;
/** The peer makes more work than it should. */
const ENHANCE_YOUR_CALM = 11;

function frame(type: number, payload: Buffer): Buffer {
  const header = Buffer.alloc(9);
  header.writeUIntBE(payload.length, 0, 3);
  header[3] = type;
  return Buffer.concat([header, payload]);
}

/** The bytes of HTTP/2 that end a new connection with a reason. Clients show the text. */
function refusingBytes(reason: string): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt32BE(ENHANCE_YOUR_CALM, 4);
  return Buffer.concat([frame(SETTINGS, Buffer.alloc(0)), frame(GOAWAY, Buffer.concat([head, Buffer.from(reason)]))]);
}
