/** How others may speak of this node. */
export interface OwnAddress {
  /** What it listens at. */
  readonly listenHost: string;
  readonly grpcPort: number;
  /** Its name, that of the machine, and what it is told to be reached at; empty ones do not count. */
  readonly names: readonly string[];
  /** IP addresses of the machine. */
  readonly machine: readonly string[];
}

/**
 * Whether `host:port` is this node, told without asking anybody. A host is known by its first labels, as `node-0` is in
 * `node-0.nodes.svc`. What is the same on every machine counts only for a node that no other machine reaches.
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
