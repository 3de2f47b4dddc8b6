import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import type { Processes } from '../../processes.ts';

/** A server that was started for the comparison, on loopback, with a directory of its own. */
export interface RunningServer {
  /** `host:port` */
  readonly endpoint: string;
  readonly version: string;
  /** Its processes are these and their descendants. */
  readonly pids: readonly number[];
  /** Resolves when its processes have ended. */
  stop(): Promise<void>;
}

/** How one kind of server is found and started. */
export interface ServerKind {
  /** Throws `NotInstalledError` where it cannot be started. */
  find(): void;
  /** @param dir is empty, and the server's alone. */
  start(dir: string, processes: Processes): Promise<RunningServer>;
}

/** A server ended, or did not begin, or cannot run here. */
class ServerFailedError extends Error {
  override readonly name = 'ServerFailedError';
}

export const LOOPBACK = '127.0.0.1';
const START_MS = 90_000;
const STOP_MS = 20_000;
const POLL_MS = 20;
const OUTPUT_CHARS = 2_000;

const alive = new Set<ChildProcess>();
// Before the handler that deletes directories: see processes.ts.
process.prependListener('exit', () => {
  for (const child of alive) killGroup(child);
});

/** A process with all that it starts. */
export class Service {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #ended: Promise<void>;
  #output = '';

  constructor(name: string, command: string, args: readonly string[], options: SpawnOptions = {}) {
    this.name = name;
    // In a process group of its own, which is what ends with it.
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

  /** Resolves when it is there, whatever that means; asks again and again. */
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

  /** With this signal, and after a while without mercy. What it started and left behind ends too. */
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

/** A port that was free a moment ago: these servers cannot be asked to choose one. */
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
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error; // nobody is left
  }
}
