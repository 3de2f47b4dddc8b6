import { AdvertiseHostUnknownError, GossipListenError } from '../gossip/datagrams/socket.ts';

/** Settings that can cause an error at the start. */
interface StartSettings {
  readonly host: string;
  readonly httpPort: number;
  /** Undefined if the program has no data directory. */
  readonly dataDir?: string;
}

/** Explains in one line why a node or a proxy cannot start, and which setting to change. */
export function explainStartError(error: unknown, config: StartSettings): string {
  if (error instanceof GossipListenError) return `${error.message}: choose another port with --gossip-port`;
  if (error instanceof AdvertiseHostUnknownError) return `${error.message} (--cluster-advertise-host)`;
  const { code, port, path, message } = asSystemError(error);
  const flag = port === config.httpPort ? '--http-port' : '--grpc-port';
  switch (code) {
    case 'EADDRINUSE':
      return `port ${port} of ${config.host} is in use: stop the program that listens there, or choose another port with ${flag}`;
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return `cannot listen on ${config.host}: this machine has no such address (--host)`;
    case 'EACCES':
    case 'EPERM':
      if (port !== undefined) return `no permission to listen on port ${port}: choose another port with ${flag}`;
      return `no permission for the data directory ${path ?? config.dataDir}: ${message} (--data-dir)`;
    case 'EEXIST':
    case 'ENOTDIR':
    case 'EROFS':
    case 'ENOSPC':
      return `cannot use the data directory ${path ?? config.dataDir}: ${message} (--data-dir)`;
    default:
      return message;
  }
}

interface SystemError {
  readonly code: string | undefined;
  readonly port: number | undefined;
  readonly path: string | undefined;
  readonly message: string;
}

function asSystemError(error: unknown): SystemError {
  if (!(error instanceof Error)) return { code: undefined, port: undefined, path: undefined, message: String(error) };
  const { code, port, path } = error as Error & { code?: unknown; port?: unknown; path?: unknown };
  return {
    code: typeof code === 'string' ? code : undefined,
    port: typeof port === 'number' ? port : undefined,
    path: typeof path === 'string' ? path : undefined,
    message: error.message.replace(/\s*\n\s*/g, ' '),
  };
}
