import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';

interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stderr: string;
}

export interface Command extends Disposable {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
}

export interface CommandOptions {
  /** Arguments of Node.js itself. */
  readonly execArgv?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  /** True for a test of memory bounds, which the bundles of the process tests do not set otherwise. Default false. */
  readonly asShipped?: boolean;
}

/** The source of a command, and the name that the process tests give to its bundle. */
export interface Program {
  readonly source: string;
  readonly name: 'node' | 'proxy';
}

/**
 * Runs a command: its bundle if the process tests have made one, which starts in half of the time, otherwise its source. Kills it
 * on disposal if it still runs.
 */
export function runCommand(
  { source, name }: Program,
  args: readonly string[],
  { execArgv = [], env = {}, asShipped = false }: CommandOptions = {},
): Command {
  const bundles = process.env.TASKMASTER_TEST_BUNDLES;
  const program = bundles === undefined ? source : join(bundles, `${name}.mjs`);
  const child = spawn(process.execPath, ['--conditions=source', ...execArgv, program, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH,
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      ...(asShipped && { TEST_AS_SHIPPED: '1' }),
      ...env,
    },
  });
  const ended = Promise.all([once(child, 'exit'), text(child.stderr)]).then(([[code, signal], stderr]) => ({
    code,
    signal,
    stderr,
  }));
  return { child, ended, [Symbol.dispose]: () => void child.kill('SIGKILL') };
}

/** The first line of the command, which runs with `--json`. */
export async function readyLine({ child }: Command): Promise<{ grpc: string; http: string; ready: boolean }> {
  if (child.stdout === null) throw new TypeError('the child has no standard output');
  for await (const line of createInterface(child.stdout)) return JSON.parse(line);
  throw new Error('the command ended before it was ready');
}

/** The memory bounds in the arguments and the environment of the command's process. */
export function memoryBoundsOf({ child }: Command): string[] {
  const read = (file: string): string[] => readFileSync(`/proc/${child.pid}/${file}`, 'latin1').split('\0');
  return [...read('cmdline'), ...read('environ')].filter((text) =>
    /^--.*(semi.space|growing|old.space)|^MALLOC/.test(text),
  );
}
