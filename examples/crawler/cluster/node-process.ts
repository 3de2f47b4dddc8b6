import { type ChildProcess, spawn } from 'node:child_process';
import { createReadStream, createWriteStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';

/** Longest time from the start of a node until it serves, and from SIGTERM until it has ended. In ms. */
const START_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 15_000;

interface ReadyLine {
  readonly ready: true;
  /** `host:port`. */
  readonly grpc: string;
  readonly http: string;
}

export interface NodeOptions {
  readonly dataDir: string;
  /** Where its log goes. */
  readonly logFile: string;
}

/** A TaskMaster node in a process of its own, on free ports of 127.0.0.1, that can be killed and started again. */
export class NodeProcess implements AsyncDisposable {
  readonly #options: NodeOptions;
  #child: ChildProcess;
  #ready: ReadyLine;
  #restarting: Promise<void> = Promise.resolve();

  private constructor(options: NodeOptions, child: ChildProcess, ready: ReadyLine) {
    this.#options = options;
    this.#child = child;
    this.#ready = ready;
  }

  /** Resolves when it serves. @throws when it does not, with what it logged last. */
  static async start(options: NodeOptions): Promise<NodeProcess> {
    const { child, ready } = await launch(options, ['--grpc-port', '0', '--http-port', '0']);
    return new NodeProcess(options, child, ready);
  }

  /** `host:port` of its gRPC service; the same after a restart. */
  get endpoint(): string {
    return this.#ready.grpc;
  }

  /** `host:port` of its pages. */
  get http(): string {
    return this.#ready.http;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** As `kill -9` does: it gets no chance to write anything. Resolves when it is gone. */
  async kill(): Promise<void> {
    const ended = exited(this.#child);
    this.#child.kill('SIGKILL');
    await ended;
  }

  /** Starts it again after `kill`, with its data and its ports. Resolves when it serves. */
  restart(): Promise<void> {
    const restarting = this.#restart();
    this.#restarting = restarting.catch(() => {});
    return restarting;
  }

  async #restart(): Promise<void> {
    const port = (address: string): string => address.slice(address.lastIndexOf(':') + 1);
    const { grpc, http } = this.#ready;
    const { child, ready } = await launch(this.#options, ['--grpc-port', port(grpc), '--http-port', port(http)]);
    this.#child = child;
    this.#ready = ready;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // One that is just starting would be left behind.
    await this.#restarting;
    const ended = exited(this.#child);
    this.#child.kill('SIGTERM');
    const impatience = setTimeout(() => this.#child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await ended;
    clearTimeout(impatience);
  }
}

async function launch(
  { dataDir, logFile }: NodeOptions,
  ports: readonly string[],
): Promise<{ child: ChildProcess; ready: ReadyLine }> {
  const args = [await nodeProgram(), 'serve', '--json', '--data-dir', dataDir, ...ports, ...modestSettings];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  killWithUs(child);
  child.stderr?.pipe(createWriteStream(logFile, { flags: 'a' }));
  try {
    return { child, ready: await readyLine(child) };
  } catch (error) {
    child.kill('SIGKILL');
    await exited(child);
    throw new Error(`the node did not start: ${await lastLines(logFile)}`, { cause: error });
  }
}

/** The demo stores some MiB, so it need not keep a quarter of a GiB of the disk in reserve. */
const modestSettings = ['--store-reserve-bytes', '16MiB'];

/** The program `taskmaster-node` of the installed package. */
async function nodeProgram(): Promise<string> {
  const manifest = createRequire(import.meta.url).resolve('@taskmaster/proxy/package.json');
  const { bin } = JSON.parse(await readFile(manifest, 'utf8')) as { bin: Readonly<Record<string, string>> };
  return join(dirname(manifest), bin['taskmaster-node'] ?? '');
}

async function readyLine(child: ChildProcess): Promise<ReadyLine> {
  const { promise, resolve, reject } = Promise.withResolvers<ReadyLine>();
  if (child.stdout === null) throw new TypeError('the standard output of the node is not a pipe');
  const lines = createInterface({ input: child.stdout });
  lines.once('line', (line) => {
    try {
      resolve(JSON.parse(line) as ReadyLine);
    } catch (error) {
      reject(error);
    }
  });
  child.once('error', reject);
  child.once('exit', (code) => reject(new Error(`it ended with exit code ${code}`)));
  const impatience = setTimeout(() => reject(new Error(`not ready after ${START_TIMEOUT_MS} ms`)), START_TIMEOUT_MS);
  try {
    return await promise;
  } finally {
    clearTimeout(impatience);
  }
}

/** Resolves when the process has ended, also when it had before. */
export function exited(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => child.once('exit', () => resolve()));
}

/** However this process ends, short of being killed itself, the child does not outlive it. */
export function killWithUs(child: ChildProcess): void {
  const kill = (): void => void child.kill('SIGKILL');
  process.once('exit', kill);
  child.once('exit', () => process.off('exit', kill));
}

async function lastLines(file: string): Promise<string> {
  const lines: string[] = [];
  for await (const line of createInterface({ input: createReadStream(file) })) lines.push(line);
  return lines.slice(-12).join('\n');
}
