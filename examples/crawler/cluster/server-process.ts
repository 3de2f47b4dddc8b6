import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, createReadStream, openSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { exited, killWithUs } from './child-processes.ts';

/** Longest time from the start of a server until it serves, and from SIGTERM until it has ended. In ms. */
const START_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 15_000;

/** Addresses of a running server, each `host:port`. */
interface Addresses {
  readonly grpc: string;
  readonly http: string;
  /** Only members of a cluster have it. */
  readonly gossip?: string;
}

export interface ServerOptions {
  readonly name: string;
  readonly program: 'taskmaster-node' | 'taskmaster-proxy';
  /** Flags of every start. */
  readonly settings: readonly string[];
  /** Flags of the first start only. Later the node knows them from its disk. */
  readonly atFirst?: readonly string[];
  /** File of the log. */
  readonly logFile: string;
  /**
   * Called when the server ends although no caller asked for it. `signal`: the signal that ended it; undefined if it exited.
   */
  readonly onEnd: (signal: NodeJS.Signals | undefined) => void;
}

/** A node or a proxy in a process of its own, on free ports of 127.0.0.1. It can be killed and started again. */
export class ServerProcess implements AsyncDisposable {
  readonly #options: ServerOptions;
  #child: ChildProcess | undefined;
  #addresses: Addresses | undefined;
  #serves = false;
  #mayEnd = false;
  #disposed = false;

  /** Starts no process yet. Dispose of the object even if it was never started. */
  constructor(options: ServerOptions) {
    this.#options = options;
  }

  get name(): string {
    return this.#options.name;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Whether the process runs and has reported that it is ready. */
  get serves(): boolean {
    return this.#serves;
  }

  /** `host:port` of its gRPC. A restart does not change it. */
  get endpoint(): string {
    return this.#served.grpc;
  }

  /** `host:port` of its HTTP. */
  get http(): string {
    return this.#served.http;
  }

  get #served(): Addresses {
    if (this.#addresses === undefined) throw new TypeError(`${this.name} has never served`);
    return this.#addresses;
  }

  /**
   * Starts the process, with the data and ports of an earlier start if there was one. Resolves when it serves. Rejects with
   * the end of its log if it does not start, or with the reason of the signal.
   */
  async start(signal: AbortSignal): Promise<void> {
    // A disposal ends only the processes that exist at its beginning.
    if (this.#disposed) throw new TypeError(`${this.name} is disposed of`);
    const { program, settings, atFirst = [], logFile } = this.#options;
    const own = this.#addresses === undefined ? [...onAnyPort, ...atFirst] : onPortsOf(this.#addresses);
    const log = openSync(logFile, 'a');
    const args = [pathOf(program), 'serve', '--json', ...settings, ...own];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', log] });
    closeSync(log);
    this.#child = child;
    this.#mayEnd = false;
    killWithUs(child);
    child.once('exit', (_, by) => this.#ended(by ?? undefined));
    try {
      this.#addresses = await readyLine(child, signal);
      this.#serves = true;
    } catch (error) {
      signal.throwIfAborted();
      child.kill('SIGKILL');
      await exited(child);
      throw new Error(`${this.name} did not start: ${await lastLines(logFile)}`, { cause: error });
    }
  }

  /** Kills the process with SIGKILL. Resolves when it has ended. */
  async kill(): Promise<void> {
    this.#mayEnd = true;
    this.#child?.kill('SIGKILL');
    if (this.#child !== undefined) await exited(this.#child);
  }

  /** Expects the process to end by itself. Resolves with its exit code. */
  async end(): Promise<number | null> {
    this.#mayEnd = true;
    if (this.#child === undefined) return null;
    await exited(this.#child);
    return this.#child.exitCode;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    this.#mayEnd = true;
    const child = this.#child;
    if (child === undefined) return;
    child.kill('SIGTERM');
    const impatience = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await exited(child);
    clearTimeout(impatience);
  }

  #ended(by: NodeJS.Signals | undefined): void {
    const served = this.#serves;
    this.#serves = false;
    // A server that ends before it served is reported by `start`.
    if (served && !this.#mayEnd) this.#options.onEnd(by);
  }
}

const onAnyPort = ['--grpc-port', '0', '--http-port', '0', '--gossip-port', '0'];

function onPortsOf({ grpc, http, gossip }: Addresses): string[] {
  const port = (address: string): string => address.slice(address.lastIndexOf(':') + 1);
  const gossipPort = gossip === undefined ? [] : ['--gossip-port', port(gossip)];
  return ['--grpc-port', port(grpc), '--http-port', port(http), ...gossipPort];
}

/** The path of an installed program. */
function pathOf(program: ServerOptions['program']): string {
  const require = createRequire(import.meta.url);
  const manifest = program === 'taskmaster-node' ? '@taskmaster/node/package.json' : '@taskmaster/proxy/package.json';
  const { bin } = require(manifest) as { readonly bin: Readonly<Record<string, string>> };
  return join(dirname(require.resolve(manifest)), bin[program] ?? '');
}

async function readyLine(child: ChildProcess, signal: AbortSignal): Promise<Addresses> {
  const { promise, resolve, reject } = Promise.withResolvers<Addresses>();
  if (child.stdout === null) throw new TypeError('the standard output of the server is not a pipe');
  const lines = createInterface({ input: child.stdout });
  lines.on('line', (line) => {
    try {
      const said = JSON.parse(line) as Addresses & { readonly ready?: boolean };
      // A node that waits for other members reports first that it is not ready.
      if (said.ready !== false) resolve(said);
    } catch (error) {
      reject(error);
    }
  });
  child.once('error', reject);
  child.once('exit', (code) => reject(new Error(`it ended with exit code ${code}`)));
  const ended = AbortSignal.any([signal, AbortSignal.timeout(START_TIMEOUT_MS)]);
  const onAbort = (): void => reject(ended.reason);
  ended.addEventListener('abort', onAbort, { once: true });
  if (ended.aborted) onAbort();
  try {
    return await promise;
  } finally {
    ended.removeEventListener('abort', onAbort);
  }
}

async function lastLines(file: string): Promise<string> {
  const lines: string[] = [];
  for await (const line of createInterface({ input: createReadStream(file) })) lines.push(line);
  return lines.slice(-12).join('\n');
}
