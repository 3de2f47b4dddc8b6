import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Job, JobReply, JobRequest, JobResults } from './load/jobs.ts';

/** How long a process may take to become ready or to end before it is killed, in ms. A node may have a log to replay. */
const START_MS = 120_000;
const STOP_MS = 30_000;
/** How long a job may take beyond its own time, in ms. */
const JOB_GRACE_MS = 60_000;
/** What is kept of a process's standard error, to say why it ended. */
const STDERR_CHARS = 4_000;

/** A new node fills its reserve of disk space, which keeps the disk busy for seconds that are not to be measured. */
const RESERVE = '--store-reserve-bytes=1MiB';

const nodeCli = join(
  dirname(createRequire(import.meta.url).resolve('@taskmaster/proxy/package.json')),
  'dist',
  'node-cli.js',
);

/** What must not outlive this process, whatever becomes of it. */
const alive = new Set<ChildProcess>();
const directories = new Set<string>();
process.once('exit', () => {
  for (const child of alive) child.kill('SIGKILL');
  // A process that was just killed may still be making files.
  for (const dir of directories) rmSync(dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 20 });
});

/** A process ended that was still needed. The cause is what it said. */
export class ProcessEnded extends Error {
  override readonly name = 'ProcessEnded';

  constructor(message: string, stderr = '') {
    const why = stderr.split('\n').find((line) => /error/i.test(line)) ?? '';
    super(why === '' ? message : `${message}: ${why.trim()}`, { cause: stderr });
  }
}

export interface ProcessesOptions {
  /** Where directories of data are made. */
  readonly dir: string;
  /** Flags of every node, such as `--durability=relaxed`. */
  readonly nodeFlags: readonly string[];
  /** Where processes leave CPU profiles when they end; undefined: nowhere. */
  readonly profileDir: string | undefined;
}

/** A server in a process of its own. */
export interface ServerProcess {
  readonly pid: number;
  /** `host:port` of gRPC. */
  readonly endpoint: string;
  /** From the start of the process until it said that it serves, in ms. */
  readonly readyMs: number;
  /** As an orchestrator stops it. Resolves when it has ended. */
  stop(): Promise<void>;
  /** `kill -9`. Resolves when it has ended. */
  kill(): Promise<void>;
}

/** Starts processes and makes directories, and takes both away when it is disposed of. */
export class Processes implements AsyncDisposable {
  readonly #options: ProcessesOptions;
  readonly #children: Child[] = [];
  readonly #directories: string[] = [];

  constructor(options: ProcessesOptions) {
    this.#options = options;
  }

  async directory(): Promise<string> {
    const dir = await mkdtemp(join(this.#options.dir, 'taskmaster-bench-'));
    directories.add(dir);
    this.#directories.push(dir);
    return dir;
  }

  /** A node on a new directory, or on that of one that was killed. */
  async node(dir?: string, flags: readonly string[] = []): Promise<ServerProcess> {
    if (!existsSync(nodeCli)) throw new Error('the node is not built: run tsc -b first');
    const dataDir = join(dir ?? (await this.directory()), 'data');
    const args = ['--json', `--data-dir=${dataDir}`, '--grpc-port=0', '--http-port=0', '--log-level=warn', RESERVE];
    return this.#server('node', [nodeCli, ...args, ...this.#options.nodeFlags, ...flags]);
  }

  /** A grpc-js server on the same messages that does nothing. */
  noopServer(): Promise<ServerProcess> {
    return this.#server('no-op server', [sibling('baselines/noop-server')]);
  }

  generator(): LoadGenerator {
    const child = fork(sibling('load/generator'), {
      // Of its own process group: Ctrl-C must not end it before its results are discarded in order.
      detached: true,
      serialization: 'advanced',
      execArgv: this.#execArgv(),
    });
    const running = new Child('load generator', child);
    this.#children.push(running);
    return new LoadGenerator(running, child);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // First those who write there.
    await Promise.all(this.#children.map((child) => child.stop()));
    for (const dir of this.#directories) {
      await rm(dir, { recursive: true, force: true });
      directories.delete(dir);
    }
  }

  async #server(name: string, args: readonly string[]): Promise<ServerProcess> {
    const began = performance.now();
    const child = spawn(process.execPath, [...this.#execArgv(), ...args], {
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const running = new Child(name, child);
    this.#children.push(running);
    const endpoint = await running.ready();
    return {
      pid: running.pid,
      endpoint,
      readyMs: performance.now() - began,
      stop: () => running.stop(),
      kill: () => running.kill(),
    };
  }

  #execArgv(): string[] {
    const { profileDir } = this.#options;
    return profileDir === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileDir}`];
  }
}

/** A process of ours. */
class Child {
  readonly name: string;
  readonly #child: ChildProcess;
  /** Rejects when the process ends; whoever waits for something of it races with this. */
  readonly ended: Promise<never>;
  #stderr = '';

  constructor(name: string, child: ChildProcess) {
    this.name = name;
    this.#child = child;
    alive.add(child);
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-STDERR_CHARS);
    });
    this.ended = new Promise((_resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code, signal) => {
        alive.delete(child);
        reject(
          new ProcessEnded(`the ${name} ended with ${signal ?? code}${this.#stderr && `: ${this.#stderr.trim()}`}`),
        );
      });
    });
    this.ended.catch(() => {}); // nobody may be waiting
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw new ProcessEnded(`the ${this.name} was not started`);
    return this.#child.pid;
  }

  /** Resolves with the address on the ready line. */
  async ready(): Promise<string> {
    const { stdout } = this.#child;
    if (stdout === null) throw new TypeError(`the ${this.name} has no standard output`);
    const address = Promise.withResolvers<string>();
    // Read to the end: a pipe that nobody reads would block the process one day.
    createInterface(stdout).on('line', (line) => {
      const found = addressOf(line);
      if (found !== undefined) address.resolve(found);
    });
    return this.within(START_MS, 'become ready', address.promise);
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

/** A process that makes load, one job after the other or several at once. */
export class LoadGenerator {
  readonly #running: Child;
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (reply: JobReply) => void>();
  #lastId = 0;

  constructor(running: Child, child: ChildProcess) {
    this.#running = running;
    this.#child = child;
    child.on('message', (reply: JobReply) => {
      this.#waiting.get(reply.id)?.(reply);
      this.#waiting.delete(reply.id);
    });
  }

  get pid(): number {
    return this.#running.pid;
  }

  async run<Kind extends Job['kind']>(job: Extract<Job, { readonly kind: Kind }>): Promise<JobResults[Kind]> {
    const id = ++this.#lastId;
    const replied = new Promise<JobReply>((resolve) => this.#waiting.set(id, resolve));
    this.#child.send({ id, job } satisfies JobRequest);
    const ms = ('ms' in job ? job.ms : 0) + JOB_GRACE_MS;
    const reply = await this.#running.within(ms, `finish a job (${job.kind})`, replied);
    if ('error' in reply) throw new Error(`the load failed: ${reply.error}`);
    return reply.result as JobResults[Kind];
  }

  stop(): Promise<void> {
    return this.#running.stop();
  }

  kill(): Promise<void> {
    return this.#running.kill();
  }
}

/** A program of this package, as it is here: a source or what the build made of it. */
function sibling(name: string): string {
  const here = fileURLToPath(import.meta.url);
  return join(dirname(here), `${name}${extname(here)}`);
}

function addressOf(line: string): string | undefined {
  let told: unknown;
  try {
    told = JSON.parse(line);
  } catch {
    return undefined; // said to people
  }
  if (typeof told !== 'object' || told === null || !('ready' in told) || !('grpc' in told)) return undefined;
  return told.ready === true && typeof told.grpc === 'string' ? told.grpc : undefined;
}
