import { createSocket, type Socket } from 'node:dgram';
import { lookup } from 'node:dns/promises';
import { isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';

/** Gossip cannot listen where it was told to. */
export class GossipListenError extends Error {
  readonly host: string;
  readonly port: number;
  /** As Node names it, such as `EADDRINUSE`. */
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

/** Resolves when bound; rejects with GossipListenError. Nothing this socket emits later can end the process. */
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
  // A peer's closed port comes back as an error of the socket on some systems: lost datagrams like any others.
  socket.on('error', () => {});
  return socket;
}

/** The name that others are to reach this machine at means nothing. */
export class AdvertiseHostUnknownError extends Error {
  override readonly name = 'AdvertiseHostUnknownError';

  constructor(host: string, options: ErrorOptions) {
    super(`cluster.advertiseHost: the name ${JSON.stringify(host)} does not resolve to an IPv4 address`, options);
  }
}

/** Rejects with `AdvertiseHostUnknownError`. */
export async function assertResolves(advertiseHost: string): Promise<void> {
  try {
    await toIPv4(advertiseHost);
  } catch (cause) {
    throw new AdvertiseHostUnknownError(advertiseHost, { cause });
  }
}

export interface HeldPort {
  /** Resolves when it is free. Harmless when repeated. */
  release(): Promise<void>;
}

/**
 * Gossip begins once a member has told of its cluster, which may take long: what is the matter with its port is to be known
 * at the start, and nobody else is to take it meanwhile. Rejects with GossipListenError.
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

/** The `IPv4:port` peers are told: the advertised host, else the one bound to, else the machine's first address. */
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
