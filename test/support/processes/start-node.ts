import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { AS_SHIPPED, nodeCli } from '../paths.ts';
import { temporaryDirectory } from '../temporary-directory.ts';
import { type Ended, type Running, runProcess, startProcess } from './child-process.ts';

export interface StartNodeOptions {
  /** The data directory. Default: a new one, which is deleted with the node. */
  readonly dir?: string;
  /** Default: any free port. */
  readonly grpcPort?: number;
  /** More flags, for example `--engine-cache-bytes=1MiB`. */
  readonly flags?: readonly string[];
  /** A program with arguments that runs the node, for example strace. It must end when the node ends. */
  readonly behind?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** True for a test that measures memory: V8 keeps the bounds of a node. Default false. See `AS_SHIPPED`. */
  readonly asShipped?: boolean;
  /** The built command line. Default: that of this workspace. */
  readonly cli?: string | undefined;
}

/** A node in its own process. Disposing of it kills it. */
export interface RunningNode extends AsyncDisposable {
  readonly pid: number;
  readonly dir: string;
  /** Address of its gRPC, `127.0.0.1:port`. */
  readonly endpoint: string;
  readonly grpcPort: number;
  readonly httpPort: number;
  /** 0 for a node without a cluster. */
  readonly gossipPort: number;
  /** Time from the start of the process until it reported that it was ready, in ms. */
  readonly readyMs: number;
  readonly process: Running;
  /** Sends a signal that stops the node in good order. Resolves when it has ended. */
  stop(signal?: 'SIGTERM' | 'SIGINT' | 'SIGHUP'): Promise<Ended>;
  /** `kill -9`. Resolves when it has ended. */
  kill(): Promise<Ended>;
}

/** A node that ended instead of becoming ready. */
export class NodeDidNotStartError extends Error {
  override readonly name = 'NodeDidNotStartError';
  readonly ended: Ended;

  constructor(ended: Ended) {
    super(`the node ended with ${ended.code ?? ended.signal}: ${ended.stderr.trim()}`);
    this.ended = ended;
  }
}

/** The line that a node prints with `--json` when it serves, or when it listens and waits for other members. */
interface ReadyLine {
  readonly ready: boolean;
  /** `host:port`. */
  readonly grpc: string;
  /** `host:port`, or the URL of the page. */
  readonly http: string;
  /** `host:port`; undefined for a node without a cluster. */
  readonly gossip?: string;
  /** Process id of the node itself, even if another program runs it. */
  readonly pid: number;
}

/** Starts a built node. Resolves when it serves or waits for other members. Rejects with `NodeDidNotStartError`. */
export async function startNode(options: StartNodeOptions = {}): Promise<RunningNode> {
  const temporary = options.dir === undefined ? await temporaryDirectory() : undefined;
  const dir = options.dir ?? join(temporary?.path ?? '', 'data');
  const begun = performance.now();
  const [command = process.execPath, ...args] = [
    ...(options.behind ?? []),
    process.execPath,
    ...nodeArgs(dir, options),
  ];
  const running = await startProcess(command, args, { env: nodeEnv(options) });
  const ready = await readyLine(running);
  if (ready === undefined) {
    await temporary?.[Symbol.asyncDispose]();
    throw new NodeDidNotStartError(await running.ended);
  }
  const { pid } = ready;
  const grpcPort = portOf(ready.grpc);
  const end = (signal: NodeJS.Signals): Promise<Ended> => {
    if (running.isRunning) process.kill(pid, signal);
    return running.ended;
  };
  return {
    pid,
    dir,
    endpoint: `127.0.0.1:${grpcPort}`,
    grpcPort,
    httpPort: portOf(ready.http),
    gossipPort: ready.gossip === undefined ? 0 : portOf(ready.gossip),
    readyMs: performance.now() - begun,
    process: running,
    stop: (signal = 'SIGTERM') => end(signal),
    kill: () => end('SIGKILL'),
    async [Symbol.asyncDispose]() {
      await end('SIGKILL');
      await temporary?.[Symbol.asyncDispose]();
    },
  };
}

/** Runs a node that must refuse to start. */
export async function runNode(options: StartNodeOptions & { readonly dir: string }): Promise<Ended> {
  return runProcess(process.execPath, nodeArgs(options.dir, options), { env: nodeEnv(options) });
}

function nodeArgs(dir: string, options: StartNodeOptions): string[] {
  const { grpcPort = 0, flags = [], cli = nodeCli } = options;
  if (!existsSync(cli)) throw new Error(`${cli} is missing: build first`);
  return [cli, '--json', `--data-dir=${dir}`, `--grpc-port=${grpcPort}`, '--http-port=0', ...flags];
}

/** Default of the tests: a node would fill a reserve of 256 MiB while it serves, and keep the disk busy for the other tests. */
const SMALL_RESERVE = { TASKMASTER_STORE_RESERVE_BYTES: '1MiB' };

/** The environment without settings of nodes and of the test runner, and with a small reserve file. */
function nodeEnv({ env = {}, asShipped = false }: StartNodeOptions): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !/^(TASKMASTER_|VITEST|NODE_OPTIONS$)/.test(name));
  return { ...Object.fromEntries(own), ...SMALL_RESERVE, ...(asShipped && { [AS_SHIPPED]: '1' }), ...env };
}

async function readyLine(running: Running): Promise<ReadyLine | undefined> {
  for await (const line of running.lines()) {
    const told: unknown = JSON.parse(line);
    if (isReadyLine(told)) return told;
  }
  return undefined;
}

function isReadyLine(told: unknown): told is ReadyLine {
  return typeof told === 'object' && told !== null && 'ready' in told && typeof told.ready === 'boolean';
}

/** The port in `host:port` or `http://host:port/`. */
function portOf(address: string): number {
  return Number(/:(\d+)\/?$/.exec(address)?.[1]);
}
