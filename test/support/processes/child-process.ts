import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';

/** The end of a process, with its output. */
export interface Ended {
  /** The exit code; undefined when a signal ended it. */
  readonly code: number | undefined;
  readonly signal: NodeJS.Signals | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Running extends AsyncDisposable {
  readonly pid: number;
  readonly process: ChildProcess;
  readonly isRunning: boolean;
  /** The output so far. */
  readonly stdout: string;
  readonly stderr: string;
  /** Resolves when the process has ended and its output is read. Never rejects. */
  readonly ended: Promise<Ended>;
  /** The lines of its standard output, when they arrive. */
  lines(): AsyncGenerator<string, void>;
  /** Sends a signal and waits for the end. Does nothing after the end. */
  kill(signal?: NodeJS.Signals): Promise<Ended>;
}

/** `signal` kills the process. */
export type ProcessOptions = Pick<SpawnOptions, 'cwd' | 'env' | 'signal'>;

/** Processes that must end with the test run. */
const alive = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of alive) child.kill('SIGKILL');
});

/** Starts a program. Disposing of it kills it. Rejects if it cannot be started. */
export async function startProcess(
  command: string,
  args: readonly string[],
  options: ProcessOptions = {},
): Promise<Running> {
  const child = spawn(command, args, { ...options, killSignal: 'SIGKILL', stdio: ['pipe', 'pipe', 'pipe'] });
  let stdout = '';
  let stderr = '';
  const news = new EventTarget();
  const tell = (): boolean => news.dispatchEvent(new Event('news'));
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    tell();
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  // The process may end before it reads its input.
  child.stdin.on('error', () => {});
  let over = false;
  const ended = new Promise<Ended>((resolve) => {
    child.once('close', (code, signal) => {
      over = true;
      alive.delete(child);
      resolve({ code: code ?? undefined, signal: signal ?? undefined, stdout, stderr });
      tell();
    });
  });
  await once(child, 'spawn');
  alive.add(child);
  // `ended` reports this error, too.
  child.on('error', () => {});
  return {
    pid: child.pid ?? 0,
    process: child,
    get isRunning() {
      return child.exitCode === null && child.signalCode === null;
    },
    get stdout() {
      return stdout;
    },
    get stderr() {
      return stderr;
    },
    ended,
    async *lines() {
      for (let read = 0; ; ) {
        const end = stdout.indexOf('\n', read);
        if (end >= 0) {
          yield stdout.slice(read, end);
          read = end + 1;
        } else if (over) {
          return;
        } else {
          await new Promise((resolve) => news.addEventListener('news', resolve, { once: true }));
        }
      }
    },
    kill(signal = 'SIGKILL') {
      child.kill(signal);
      return ended;
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

/** Runs a program to its end. */
export async function runProcess(
  command: string,
  args: readonly string[],
  options: ProcessOptions = {},
): Promise<Ended> {
  await using running = await startProcess(command, args, options);
  running.process.stdin?.end();
  return await running.ended;
}
