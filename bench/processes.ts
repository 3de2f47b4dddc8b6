import { type ChildProcess, fork, spawn } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Child, killAll, type ReadyLine } from './child.ts';
import { environmentOf, type LoadCredentials } from './load/connections.ts';
import type { Job, JobReply, JobRequest, JobResults } from './load/jobs.ts';
import { LOAD_FLAGS } from './load-flags.ts';

/** Time that a job may take beyond its run time, in ms. */
const JOB_GRACE_MS = 60_000;

/** A small reserve file: filling a large one would keep the disk busy for seconds during the measurement. */
const RESERVE = '--store-reserve-bytes=1MiB';

const { resolve } = createRequire(import.meta.url);
const nodeCli = join(dirname(resolve('@taskmaster/node/package.json')), 'dist', 'node-cli.js');
const proxyCli = join(dirname(resolve('@taskmaster/proxy/package.json')), 'dist', 'cli.js');

const directories = new Set<string>();
process.once('exit', () => {
  killAll();
  // A process that was just killed may still create files.
  for (const dir of directories) rmSync(dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 20 });
});

export interface ProcessesOptions {
  /** Directory for all data directories. */
  readonly dir: string;
  /** Flags of every node, such as `--durability=relaxed`. */
  readonly nodeFlags: readonly string[];
  /** Directory for the CPU profiles that processes write when they end. Undefined: no profiles. */
  readonly profileDir: string | undefined;
  /** More arguments for Node in every process. */
  readonly execArgv?: readonly string[];
  /** Root of another built checkout, whose nodes and load generators are started. Default: this one. */
  readonly checkout?: string;
}

/** A server in its own process. */
export interface ServerProcess {
  readonly pid: number;
  /** `host:port` of gRPC. */
  readonly endpoint: string;
  readonly ready: ReadyLine;
  readonly isRunning: boolean;
  /** Time from the start of the process until it reported that it serves, in ms. */
  readonly readyMs: number;
  /** Sends SIGTERM. Resolves when the process has ended. */
  stop(): Promise<void>;
  /** `kill -9`. Resolves when it has ended. */
  kill(): Promise<void>;
  /** Resolves when it has ended by itself. */
  end(withinMs: number): Promise<void>;
}

/** Receives the lines of a server's standard error. */
export type OnLine = (line: string) => void;

/** Starts processes and creates directories. Ends and deletes them when it is disposed of. */
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

  /** Starts a node with a new directory, or with the directory of a killed node. */
  async node(dir?: string, flags: readonly string[] = [], onLine?: OnLine): Promise<ServerProcess> {
    const dataDir = join(dir ?? (await this.directory()), 'data');
    const args = ['--json', `--data-dir=${dataDir}`, '--grpc-port=0', '--http-port=0', '--log-level=warn', RESERVE];
    const { checkout, nodeFlags } = this.#options;
    const program = checkout === undefined ? nodeCli : nodeCliIn(checkout);
    return this.#server('node', [built(program), ...args, ...nodeFlags, ...flags], onLine);
  }

  /** Starts a proxy of the cluster with these endpoints. */
  proxy(join: readonly string[], flags: readonly string[] = []): Promise<ServerProcess> {
    const ports = ['--grpc-port=0', '--http-port=0', '--gossip-port=0'];
    const args = ['--json', `--join=${join.join(',')}`, ...ports, '--log-level=warn', ...flags];
    return this.#server('proxy', [built(proxyCli), ...args]);
  }

  /** Starts a grpc-js server that accepts the same messages and does nothing. */
  noopServer(): Promise<ServerProcess> {
    return this.#server('no-op server', [sibling('baselines/noop-server')]);
  }

  generator(credentials: LoadCredentials = {}): LoadGenerator {
    const { checkout } = this.#options;
    const program = checkout === undefined ? sibling('load/generator') : join(checkout, 'bench/dist/load/generator.js');
    const child = fork(program, {
      env: { ...process.env, ...environmentOf(credentials) },
      // In its own process group: Ctrl-C must not end it before this process has stopped the run.
      detached: true,
      serialization: 'advanced',
      execArgv: [...LOAD_FLAGS, ...this.#execArgv()],
    });
    const running = new Child('load generator', child);
    this.#children.push(running);
    return new LoadGenerator(running, child);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // First the processes that write to the directories.
    await Promise.all(this.#children.map((child) => child.stop()));
    for (const dir of this.#directories) {
      await rm(dir, { recursive: true, force: true });
      directories.delete(dir);
    }
  }

  async #server(name: string, args: readonly string[], onLine?: OnLine): Promise<ServerProcess> {
    const began = performance.now();
    const child = spawn(process.execPath, [...this.#execArgv(), ...args], {
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const running = new Child(name, child, onLine);
    this.#children.push(running);
    const ready = await running.ready();
    return {
      pid: running.pid,
      endpoint: ready.grpc,
      ready,
      get isRunning() {
        return running.isRunning;
      },
      readyMs: performance.now() - began,
      stop: () => running.stop(),
      kill: () => running.kill(),
      end: (withinMs) => running.end(withinMs),
    };
  }

  #execArgv(): string[] {
    const { profileDir, execArgv = [] } = this.#options;
    return [...execArgv, ...(profileDir === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileDir}`])];
  }
}

/** A process that generates load. It runs one job after the other, or several concurrently. */
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

/** A program of this package: the source or the built file, like this file. */
function sibling(name: string): string {
  const here = fileURLToPath(import.meta.url);
  return join(dirname(here), `${name}${extname(here)}`);
}

/** The program of a node in another checkout. Until November 2026 the package of the proxy had it. */
function nodeCliIn(checkout: string): string {
  const [now = '', before = ''] = ['node', 'proxy'].map((name) =>
    join(checkout, 'packages', name, 'dist', 'node-cli.js'),
  );
  return existsSync(before) ? before : now;
}

function built(program: string): string {
  if (!existsSync(program)) throw new Error(`${program} is missing: run tsc -b first`);
  return program;
}
