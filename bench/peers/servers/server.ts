import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import type { Processes } from '../../processes.ts';

/** A running server of the comparison, on loopback, with its own directory. */
export interface RunningServer {
  /** `host:port` */
  readonly endpoint: string;
  readonly version: string;
  /** Process ids; their descendants are processes of the server, too. */
  readonly pids: readonly number[];
  /** Resolves when its processes have ended. */
  stop(): Promise<void>;
}

/** A kind of server. */
export interface ServerKind {
  /** Throws `NotInstalledError` if it cannot be started. */
  find(): void;
  /** Starts a server. `dir` must be empty and is used only by this server. */
  start(dir: string, processes: Processes): Promise<RunningServer>;
}

/** A server has ended, did not start, or cannot run on this machine. */
class ServerFailedError extends Error {
  override readonly name = 'ServerFailedError';
}

export const LOOPBACK = '127.0.0.1';
const START_MS = 90_000;
const STOP_MS = 20_000;
const POLL_MS = 20;
const OUTPUT_CHARS = 2_000;

const alive = new Set<ChildProcess>();
// Must run before the handler that deletes directories: see processes.ts.
process.prependListener('exit', () => {
  for (const child of alive) killGroup(child);
});

/** A process with its descendants. */
export class Service {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #ended: Promise<void>;
  #output = '';

  constructor(name: string, command: string, args: readonly string[], options: SpawnOptions = {}) {
    this.name = name;
    // In its own process group, which ends with it.
    const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    this.#child = child;
    alive.add(child);
    for (const stream of [child.stdout, child.stderr]) {
      if (stream === null) continue;
      createInterface(stream).on('line', (line) => {
        this.#output = `${this.#output}${line}\n`.slice(-OUTPUT_CHARS);
      });
    }
    this.#ended = once(child, 'exit').then(
      () => void alive.delete(child),
      (error: unknown) => {
        alive.delete(child);
        this.#output += String(error);
      },
    );
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw new ServerFailedError(`${this.name} was not started: ${this.#output}`);
    return this.#child.pid;
  }

  /** Repeats the check until it returns true. */
  async until(isThere: () => Promise<boolean>): Promise<void> {
    const end = performance.now() + START_MS;
    while (!(await isThere())) {
      if (!alive.has(this.#child)) throw new ServerFailedError(`${this.name} ended: ${this.#output.trim()}`);
      if (performance.now() > end) {
        throw new ServerFailedError(`${this.name} did not begin within ${START_MS} ms: ${this.#output.trim()}`);
      }
      await delay(POLL_MS);
    }
  }

  /** Sends the signal, and later SIGKILL. Ends all processes of the group. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (alive.has(this.#child)) {
      this.#child.kill(signal);
      const timer = setTimeout(() => killGroup(this.#child), STOP_MS);
      await this.#ended;
      clearTimeout(timer);
    }
    killGroup(this.#child);
  }
}

/** A free port, for servers that cannot choose one themselves. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, LOOPBACK);
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new ServerFailedError('there is no free port');
  return address.port;
}

export function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, LOOPBACK);
    const told = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.once('connect', () => told(true));
    socket.once('error', () => told(false));
  });
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error; // no process is left
  }
}
