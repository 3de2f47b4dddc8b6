import { type ChildProcess, spawn } from 'node:child_process';
import type { Writable } from 'node:stream';

/** How a command ended. */
export type CommandEnd =
  | { readonly kind: 'exited'; readonly code: number }
  | { readonly kind: 'killed'; readonly signal: NodeJS.Signals }
  | { readonly kind: 'not-started'; readonly message: string };

/** `exit 1`. */
export function commandEndText(end: CommandEnd): string {
  switch (end.kind) {
    case 'exited':
      return `exit ${end.code}`;
    case 'killed':
      return `ended by ${end.signal}`;
    case 'not-started':
      return `not started: ${end.message}`;
    default:
      return end satisfies never;
  }
}

export interface CommandOptions {
  readonly env: Readonly<Record<string, string>>;
  readonly stdout: 'inherit' | Writable;
  /** Ends the command with SIGTERM. If it still runs after 5 s, with SIGKILL. */
  readonly signal: AbortSignal;
}

/** Time between SIGTERM and SIGKILL, in ms. */
const GRACE_MS = 5_000;

/** Runs a shell command with the input on its stdin. Never rejects. */
export function runCommand(command: string, input: Uint8Array, options: CommandOptions): Promise<CommandEnd> {
  const { env, stdout, signal } = options;
  return new Promise((resolve) => {
    const started = startCommand(command, env, stdout);
    if (!('child' in started)) return resolve(started);
    const { child } = started;
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
    // The command may end without reading its input.
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(input);
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
  });
}

function startCommand(
  command: string,
  env: CommandOptions['env'],
  stdout: CommandOptions['stdout'],
): { readonly child: ChildProcess } | Extract<CommandEnd, { readonly kind: 'not-started' }> {
  // Another command may run with a part of a name, for the task of another queue.
  const [cut] = Object.entries(env).find(([, value]) => value.includes('\0')) ?? [];
  if (cut !== undefined)
    return { kind: 'not-started', message: `${cut} would have a NUL, which no environment can have` };
  try {
    // In its own process group, because the shell does not forward signals to its children.
    const options = { shell: true, detached: true, env: { ...process.env, ...env } } as const;
    return { child: spawn(command, { ...options, stdio: ['pipe', stdout, 'inherit'] }) };
  } catch (error) {
    // Too much for the arguments and the environment of a process, for example.
    return { kind: 'not-started', message: error instanceof Error ? error.message : String(error) };
  }
}

function signalGroup({ pid }: ChildProcess, name: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, name);
  } catch (error) {
    // The process has already ended.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
