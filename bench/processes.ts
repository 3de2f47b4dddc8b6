import { type ChildProcess, fork, spawn } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Child, killAll, type ReadyLine } from './child.ts';
import type { Job, JobReply, JobRequest, JobResults } from './load/jobs.ts';
import { LOAD_FLAGS } from './load-flags.ts';

/** How long a job may take beyond its own time, in ms. */
const JOB_GRACE_MS = 60_000;

/** A new node fills its reserve of disk space, which keeps the disk busy for seconds that are not to be measured. */
const RESERVE = '--store-reserve-bytes=1MiB';

const { resolve } = createRequire(import.meta.url);
const nodeCli = join(dirname(resolve('@taskmaster/node/package.json')), 'dist', 'node-cli.js');
const proxyCli = join(dirname(resolve('@taskmaster/proxy/package.json')), 'dist', 'cli.js');

const directories = new Set<string>();
process.once('exit', () => {
  killAll();
  // A process that was just killed may still be making files.
  for (const dir of directories) rmSync(dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 20 });
});

export interface ProcessesOptions {
  /** Where directories of data are made. */
  readonly dir: string;
  /** Flags of every node, such as `--durability=relaxed`. */
  readonly nodeFlags: readonly string[];
  /** Where processes leave CPU profiles when they end; undefined: nowhere. */
  readonly profileDir: string | undefined;
  /** Further arguments of Node in front of the program of every process. */
  readonly execArgv?: readonly string[];
}

/** A server in a process of its own. */
export interface ServerProcess {
  readonly pid: number;
  /** `host:port` of gRPC. */
  readonly endpoint: string;
  readonly ready: ReadyLine;
  readonly isRunning: boolean;
  /** From the start of the process until it said that it serves, in ms. */
  readonly readyMs: number;
  /** As an orchestrator stops it. Resolves when it has ended. */
  stop(): Promise<void>;
  /** `kill -9`. Resolves when it has ended. */
  kill(): Promise<void>;
  /** Resolves when it has ended by itself. */
  end(withinMs: number): Promise<void>;
}

/** What a server says on standard error, line by line. */
export type OnLine = (line: string) => void;

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
  async node(dir?: string, flags: readonly string[] = [], onLine?: OnLine): Promise<ServerProcess> {
    const dataDir = join(dir ?? (await this.directory()), 'data');
    const args = ['--json', `--data-dir=${dataDir}`, '--grpc-port=0', '--http-port=0', '--log-level=warn', RESERVE];
    return this.#server('node', [built(nodeCli), ...args, ...this.#options.nodeFlags, ...flags], onLine);
  }

  /** A proxy of the cluster that the endpoints belong to. */
  proxy(join: readonly string[], flags: readonly string[] = []): Promise<ServerProcess> {
    const ports = ['--grpc-port=0', '--http-port=0', '--gossip-port=0'];
    const args = ['--json', `--join=${join.join(',')}`, ...ports, '--log-level=warn', ...flags];
    return this.#server('proxy', [built(proxyCli), ...args]);
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
      execArgv: [...LOAD_FLAGS, ...this.#execArgv()],
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

function built(program: string): string {
  if (!existsSync(program)) throw new Error(`${program} is missing: run tsc -b first`);
  return program;
}
