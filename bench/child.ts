import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** How long a process may take to become ready or to end before it is killed, in ms. A node may have a log to replay. */
const START_MS = 120_000;
const STOP_MS = 30_000;
/** What is kept of a process's standard error, to say why it ended. */
const STDERR_CHARS = 4_000;

/** What must not outlive this process, whatever becomes of it. */
const alive = new Set<ChildProcess>();

export function killAll(): void {
  for (const child of alive) child.kill('SIGKILL');
}

/** A process ended that was still needed. The cause is what it said. */
export class ProcessEndedError extends Error {
  override readonly name = 'ProcessEndedError';

  constructor(message: string, stderr = '') {
    const why = stderr.split('\n').find((line) => /error/i.test(line)) ?? '';
    super(why === '' ? message : `${message}: ${why.trim()}`, { cause: stderr });
  }
}

/** What servers print on standard output once they serve. Addresses are `host:port`. */
export interface ReadyLine {
  readonly grpc: string;
  readonly http?: string;
  readonly gossip?: string;
}

/** A process of ours. */
export class Child {
  readonly name: string;
  readonly #child: ChildProcess;
  /** Rejects when the process ends; whoever waits for something of it races with this. */
  readonly ended: Promise<never>;
  #stderr = '';

  /** @param onLine is told every line of its standard error. */
  constructor(name: string, child: ChildProcess, onLine: (line: string) => void = () => {}) {
    this.name = name;
    this.#child = child;
    alive.add(child);
    if (child.stderr !== null) {
      createInterface(child.stderr).on('line', (line) => {
        this.#stderr = `${this.#stderr}${line}\n`.slice(-STDERR_CHARS);
        onLine(line);
      });
    }
    this.ended = new Promise((_resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code, signal) => {
        alive.delete(child);
        reject(
          new ProcessEndedError(
            `the ${name} ended with ${signal ?? code}${this.#stderr && `: ${this.#stderr.trim()}`}`,
          ),
        );
      });
    });
    this.ended.catch(() => {}); // nobody may be waiting
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw new ProcessEndedError(`the ${this.name} was not started`);
    return this.#child.pid;
  }

  /** Resolves with what its ready line says. */
  async ready(): Promise<ReadyLine> {
    const { stdout } = this.#child;
    if (stdout === null) throw new TypeError(`the ${this.name} has no standard output`);
    const told = Promise.withResolvers<ReadyLine>();
    // Read to the end: a pipe that nobody reads would block the process one day.
    createInterface(stdout).on('line', (line) => {
      const found = readyLine(line);
      if (found !== undefined) told.resolve(found);
    });
    return this.within(START_MS, 'become ready', told.promise);
  }

  /** A promise of something the process does, within a time, while it runs. */
  async within<T>(ms: number, doing: string, promise: Promise<T>): Promise<T> {
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new Error(`the ${this.name} did not ${doing} within ${ms} ms`)), ms);
    try {
      return await Promise.race([promise, this.ended, late.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  get isRunning(): boolean {
    return alive.has(this.#child);
  }

  /** Resolves when it has ended by itself, or for another reason. Rejects when it does not within a time. */
  async end(withinMs: number): Promise<void> {
    if (!this.isRunning) return;
    try {
      await once(this.#child, 'exit', { signal: AbortSignal.timeout(withinMs) });
    } catch (error) {
      throw new Error(`the ${this.name} did not end within ${withinMs} ms`, { cause: error });
    }
  }

  async stop(): Promise<void> {
    await this.#end('SIGTERM');
  }

  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    if (!alive.has(this.#child)) return;
    const exit = once(this.#child, 'exit');
    // A generator ends when its channel does, and leaves its profile.
    if (signal === 'SIGTERM' && this.#child.connected) this.#child.disconnect();
    else this.#child.kill(signal);
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_MS);
    await exit;
    clearTimeout(timer);
  }
}

function readyLine(line: string): ReadyLine | undefined {
  let told: unknown;
  try {
    told = JSON.parse(line);
  } catch {
    return undefined; // said to people
  }
  if (typeof told !== 'object' || told === null || !('ready' in told) || !('grpc' in told)) return undefined;
  return told.ready === true && typeof told.grpc === 'string' ? (told as ReadyLine) : undefined;
}
