/** Under which addresses other nodes may know this node. */
export interface OwnAddress {
  readonly listenHost: string;
  readonly grpcPort: number;
  /** The node's name, the machine's name and the advertised host; empty entries are ignored. */
  readonly names: readonly string[];
  /** IP addresses of the machine. */
  readonly machine: readonly string[];
}

/**
 * Whether `host:port` is this node, decided without a network call. A name matches a host by its first labels: `node-0`
 * matches `node-0.nodes.svc`. A loopback address counts only if this node listens on loopback, because it is the same on
 * every machine.
 */
export function isOwnAddress(address: string, { listenHost, grpcPort, names, machine }: OwnAddress): boolean {
  const colon = address.lastIndexOf(':');
  if (Number(address.slice(colon + 1)) !== grpcPort || grpcPort === 0) return false;
  const host = address
    .slice(0, colon)
    .replace(/^\[(.*)\]$/, '$1')
    .toLowerCase();
  if (isWildcard(host)) return false;
  if (isLoopback(host)) return isLoopback(listenHost);
  if (host === listenHost.toLowerCase() || machine.includes(host)) return true;
  return names.some((name) => name !== '' && `${host}.`.startsWith(`${name.toLowerCase()}.`));
}

const isWildcard = (host: string): boolean => host === '0.0.0.0' || host === '::';
const isLoopback = (host: string): boolean => host === 'localhost' || host === '::1' || /^127(\.\d+){3}$/.test(host);
