import { createSocket, type Socket } from 'node:dgram';
import { lookup } from 'node:dns/promises';
import { isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';

/** Gossip cannot listen on its address. */
export class GossipListenError extends Error {
  readonly host: string;
  readonly port: number;
  /** The code of Node.js, such as `EADDRINUSE`. */
  readonly code: string;
  constructor(host: string, port: number, code: string) {
    super(`gossip cannot listen on ${host}:${port} (UDP): ${REASONS[code] ?? code}`);
    this.name = 'GossipListenError';
    this.host = host;
    this.port = port;
    this.code = code;
  }
}

const REASONS: Record<string, string> = {
  EADDRINUSE: 'the port is in use by another process',
  EADDRNOTAVAIL: 'this machine has no such address',
  EACCES: 'not permitted; ports below 1024 need a privilege',
  ENOTFOUND: 'the host name does not resolve to an IPv4 address',
};

/** Binds a socket. Rejects with `GossipListenError`. Later errors of the socket cannot end the process. */
export async function bindSocket(host: string, port: number): Promise<Socket> {
  const socket = createSocket({ type: 'udp4' });
  try {
    const address = await toIPv4(host);
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject);
      socket.bind({ address, port, exclusive: true }, () => {
        socket.off('error', reject);
        resolve();
      });
    });
  } catch (cause) {
    socket.close();
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : String(cause);
    throw new GossipListenError(host, port, code);
  }
  // On some systems the closed port of a peer is reported as an error of the socket. Those datagrams are lost, like others.
  socket.on('error', () => {});
  return socket;
}

/** The advertised host name cannot be resolved. */
export class AdvertiseHostUnknownError extends Error {
  override readonly name = 'AdvertiseHostUnknownError';

  constructor(host: string, options: ErrorOptions) {
    super(`cluster.advertiseHost: the name ${JSON.stringify(host)} does not resolve to an IPv4 address`, options);
  }
}

/** Rejects with `AdvertiseHostUnknownError` if the name cannot be resolved. */
export async function assertResolves(advertiseHost: string): Promise<void> {
  try {
    await toIPv4(advertiseHost);
  } catch (cause) {
    throw new AdvertiseHostUnknownError(advertiseHost, { cause });
  }
}

export interface HeldPort {
  /** Resolves when the port is free. Has no effect if it is repeated. */
  release(): Promise<void>;
}

/**
 * Reserves the port of gossip. Gossip begins when a member has answered, which may take long. A problem with the port must be
 * known at the start, and no other process may take the port meanwhile. Rejects with `GossipListenError`.
 */
export async function holdPort(host: string, port: number): Promise<HeldPort> {
  const socket = await bindSocket(host, port);
  const released = new Promise<void>((resolve) => socket.once('close', resolve));
  let isHeld = true;
  return {
    release() {
      if (isHeld) socket.close();
      isHeld = false;
      return released;
    },
  };
}

/** The `IPv4:port` for peers: the advertised host, or the host it listens on, or the first address of the machine. */
export async function advertisedAddress(host: string, advertise: string | undefined, port: number): Promise<string> {
  const [name = host, ownPort] = advertise?.split(':') ?? [];
  const address = await toIPv4(name);
  return `${address === '0.0.0.0' ? firstAddress() : address}:${ownPort ?? port}`;
}

export async function toIPv4(host: string): Promise<string> {
  return isIPv4(host) ? host : (await lookup(host, { family: 4 })).address;
}

function firstAddress(): string {
  const own = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return own.find(({ family, internal }) => family === 'IPv4' && !internal)?.address ?? '127.0.0.1';
}
