import { type ChildProcess, spawn } from 'node:child_process';
import type { Writable } from 'node:stream';

/** How a command ended. */
export type CommandEnd =
  | { readonly kind: 'exited'; readonly code: number }
  | { readonly kind: 'killed'; readonly signal: NodeJS.Signals }
  | { readonly kind: 'not-started'; readonly message: string };

export interface CommandOptions {
  readonly env: Readonly<Record<string, string>>;
  readonly stdout: 'inherit' | Writable;
  /** Ends the command: SIGTERM, and SIGKILL when it has not heeded that for a while. */
  readonly signal: AbortSignal;
}

/** Between SIGTERM and SIGKILL, in ms. */
const GRACE_MS = 5_000;

/** Runs a shell command with the input on its stdin. Never rejects. */
export function runCommand(command: string, input: Uint8Array, options: CommandOptions): Promise<CommandEnd> {
  const { env, stdout, signal } = options;
  return new Promise((resolve) => {
    // A process group of its own: the shell passes no signals on to what it runs.
    const child = spawn(command, {
      shell: true,
      detached: true,
      env: { ...process.env, ...env },
      stdio: ['pipe', stdout, 'inherit'],
    });
    let killTimer: NodeJS.Timeout | undefined;
    const end = (): void => {
      signalGroup(child, 'SIGTERM');
      killTimer ??= setTimeout(() => signalGroup(child, 'SIGKILL'), GRACE_MS);
    };
    const ended = (how: CommandEnd): void => {
      clearTimeout(killTimer);
      signal.removeEventListener('abort', end);
      resolve(how);
    };
    child.once('error', (error) => ended({ kind: 'not-started', message: error.message }));
    child.once('exit', (code, killedBy) => {
      ended(code === null ? { kind: 'killed', signal: killedBy ?? 'SIGKILL' } : { kind: 'exited', code });
    });
    // A command need not read what it is given.
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(input);
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
  });
}

function signalGroup({ pid }: ChildProcess, name: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, name);
  } catch (error) {
    // It has ended in the meantime.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
