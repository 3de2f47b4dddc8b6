import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** Time in ms after which a process that is not ready, or has not ended, is killed. A node may have to replay a log. */
const START_MS = 120_000;
const STOP_MS = 30_000;
/** Characters of standard error that are kept, for the error when the process ends. */
const STDERR_CHARS = 4_000;

/** Processes that must end with this one. */
const alive = new Set<ChildProcess>();

export function killAll(): void {
  for (const child of alive) child.kill('SIGKILL');
}

/** A process ended that was still needed. `cause`: its standard error. */
export class ProcessEndedError extends Error {
  override readonly name = 'ProcessEndedError';

  constructor(message: string, stderr = '') {
    const why = stderr.split('\n').find((line) => /error/i.test(line)) ?? '';
    super(why === '' ? message : `${message}: ${why.trim()}`, { cause: stderr });
  }
}

/** The line that servers print on standard output when they serve. Addresses are `host:port`. */
export interface ReadyLine {
  readonly grpc: string;
  readonly http?: string;
  readonly gossip?: string;
}

/** A process that this one has started. */
export class Child {
  readonly name: string;
  readonly #child: ChildProcess;
  /** Rejects when the process ends. Waits for the process must race with it. */
  readonly ended: Promise<never>;
  #stderr = '';

  /** `onLine`: called with every line of standard error. */
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
    this.ended.catch(() => {}); // no unhandled rejection if nothing waits for it
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw new ProcessEndedError(`the ${this.name} was not started`);
    return this.#child.pid;
  }

  /** Resolves with its ready line. */
  async ready(): Promise<ReadyLine> {
    const { stdout } = this.#child;
    if (stdout === null) throw new TypeError(`the ${this.name} has no standard output`);
    const told = Promise.withResolvers<ReadyLine>();
    // Read to the end: the process would block on a full pipe.
    createInterface(stdout).on('line', (line) => {
      const found = readyLine(line);
      if (found !== undefined) told.resolve(found);
    });
    return this.within(START_MS, 'become ready', told.promise);
  }

  /** Resolves like `promise`. Rejects if the process ends, or if it takes longer than `ms`. */
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

  /** Resolves when the process has ended, for any reason. Rejects if that takes longer than `withinMs`. */
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
    // A generator writes its profile and ends when its channel is closed.
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
    return undefined; // text for users
  }
  if (typeof told !== 'object' || told === null || !('ready' in told) || !('grpc' in told)) return undefined;
  return told.ready === true && typeof told.grpc === 'string' ? (told as ReadyLine) : undefined;
}
