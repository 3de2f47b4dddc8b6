import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import type { Random } from '@taskmaster/engine/ports';

/** Resolves with the IP addresses of a host name. Rejects if it has none. */
export type LookUp = (host: string) => Promise<readonly string[]>;

export const systemLookUp: LookUp = async (host) => (await lookup(host, { all: true })).map(({ address }) => address);

/**
 * The addresses behind `host:port`, in a random order. gRPC alone would choose the same address each time, and keep its
 * connection: a node that restarts would ask only itself, if the name of all nodes resolves to its own address first.
 */
export async function addressesBehind(address: string, lookUp: LookUp, random: Random): Promise<readonly string[]> {
  const colon = address.lastIndexOf(':');
  const [host, port] = [address.slice(0, colon), address.slice(colon + 1)];
  if (isIP(host) !== 0 || host.startsWith('[')) return [address];
  // What is wrong with the name is told by the call.
  const found = await lookUp(host).catch(() => []);
  if (found.length < 2) return [address];
  return found
    .map((ip) => ({ target: isIP(ip) === 6 ? `[${ip}]:${port}` : `${ip}:${port}`, place: random.next() }))
    .toSorted((one, other) => one.place - other.place)
    .map(({ target }) => target);
}
