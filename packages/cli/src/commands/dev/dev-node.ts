import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log, RunningNode } from '@taskmaster/node';
import { CommandFailedError } from '../../views/cli-errors.ts';

/** Where a node for development listens, and where its data is. */
export interface DevNodeOptions {
  readonly host: string;
  /** 0: any free port. */
  readonly grpcPort: number;
  readonly httpPort: number;
  /** Undefined: in memory. */
  readonly dataDir: string | undefined;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** The oldest major version of Node.js that runs a node. */
const LEAST_NODE = 24;
/** How long another `taskmaster dev` may take from its first port to its last, in ms. */
const START_WITHIN_MS = 3_000;
const AGAIN_MS = 50;
/** Handlers of the application may hold requests. Nothing in development is worth a long wait. */
const STOP_WITHIN_MS = 1_000;
const MIB = 2 ** 20;
/** A guest on the machine of a developer. */
const MEMORY_BYTES = 512 * MIB;

/**
 * Starts a node in this process, unless a program listens at its port already: undefined. The port is the lock, because the
 * system gives it back when a process dies.
 * @throws CommandFailedError; errors of the store.
 */
export async function startUnlessThere(options: DevNodeOptions): Promise<RunningNode | undefined> {
  const { host, grpcPort, httpPort, dataDir, log, signal } = options;
  if (await isListening(host, grpcPort)) return undefined;
  const { startNode } = await nodePackage();
  const memory = { memory: MEMORY_BYTES, shutdownTimeoutMs: STOP_WITHIN_MS };
  const settings = { host, grpcPort, httpPort, ...memory, ...(dataDir === undefined ? {} : { dataDir }) };
  const giveUpAt = performance.now() + START_WITHIN_MS;
  for (;;) {
    try {
      return await startNode(settings, { log, signal, development: { inMemory: dataDir === undefined } });
    } catch (error) {
      const { code, port } = error as NodeJS.ErrnoException & { readonly port?: number };
      if (code !== 'EADDRINUSE') throw error;
      if (performance.now() > giveUpAt) throw portTaken(host, port === httpPort ? 'http' : 'grpc', port ?? grpcPort);
    }
    // Another one may have been a moment earlier.
    await sleep(AGAIN_MS, undefined, { signal });
    if (await isListening(host, grpcPort)) return undefined;
  }
}

/** The error for a port that belongs to a program which is no node. */
export function portTaken(host: string, what: 'grpc' | 'http', port: number): CommandFailedError {
  const message =
    what === 'grpc'
      ? `port ${port} of ${host} is taken by a program that is no node of TaskMaster`
      : `port ${port} of ${host}, for HTTP and the console, is taken by another program`;
  const other = what === 'grpc' ? `--endpoint ${host}:${port + 100}` : `--http-port ${port + 100}`;
  return new CommandFailedError('PORT_TAKEN', message, { hint: `stop it, or choose another port: ${other}` });
}

function isListening(host: string, port: number): Promise<boolean> {
  if (port === 0) return Promise.resolve(false);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect({ host, port });
  socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
  return promise.finally(() => socket.destroy());
}

/** The package of the node, which an installation of the command line alone does not have. */
async function nodePackage(): Promise<typeof import('@taskmaster/node')> {
  if (Number.parseInt(process.versions.node, 10) < LEAST_NODE) {
    const message = `a node needs Node ${LEAST_NODE} or newer; this is ${process.version}`;
    throw new CommandFailedError('OLD_NODE', message, { hint: 'run it with a newer Node, or start a node elsewhere' });
  }
  try {
    return await import('@taskmaster/node');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== 'ERR_MODULE_NOT_FOUND' || !message.includes('@taskmaster/node')) throw error;
    throw new CommandFailedError('NO_NODE', 'the package @taskmaster/node, which has the node, is not installed', {
      hint: 'npm install --save-dev @taskmaster/node',
      cause: error,
    });
  }
}
