import { readFileSync } from 'node:fs';

/** Where the limit is unknown, most systems have more. */
const USUAL_LIMIT = 10_240;
/** Descriptors of the process itself, of gossip, and of the connections to other members. */
const OWN = 64;
/** The store keeps its files open. It gets this share of the descriptors, and at least so many. */
const STORE_SHARE = 0.4;
const LEAST_FOR_STORE = 64;
/** HTTP gets at most this share of the rest. */
const HTTP_SHARE = 0.25;
/** More connections of gRPC are never needed by default. */
const MOST_GRPC = 10_000;

/** The number of files and sockets that this process may have open. */
function descriptorLimit(): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? [];
    return soft === undefined ? USUAL_LIMIT : Number(soft);
  } catch {
    // Only Linux has this file.
    return USUAL_LIMIT;
  }
}

/** Settings of a node or a proxy that limit connections. 0: chosen by the program. */
export interface ConnectionSettings {
  readonly grpc: { readonly maxConnections: number; readonly maxConnectionsPerAddress: number };
  readonly http: { readonly maxConnections: number };
}

/**
 * The limits of connections, so that they leave enough descriptors to the store: a database that cannot open a file fails. A
 * setting that the descriptors do not allow is lowered. `descriptors`: how many the process may have.
 */
export function limitConnections<S extends ConnectionSettings>(settings: S, descriptors = descriptorLimit()): S {
  const forStore = Math.max(LEAST_FOR_STORE, Math.floor(descriptors * STORE_SHARE));
  const free = Math.max(16, descriptors - OWN - forStore);
  const http = Math.min(settings.http.maxConnections, Math.max(8, Math.floor(free * HTTP_SHARE)));
  const most = Math.max(8, Math.min(settings.grpc.maxConnections || MOST_GRPC, free - http));
  // One address must not take the place of all others.
  const perAddress = Math.min(settings.grpc.maxConnectionsPerAddress || Math.ceil(most / 2), most);
  return {
    ...settings,
    http: { ...settings.http, maxConnections: http },
    grpc: { ...settings.grpc, maxConnections: most, maxConnectionsPerAddress: perAddress },
  };
}
