import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const CLI = fileURLToPath(new URL('../cli.ts', import.meta.url));

interface Ended {
  readonly code: number | null;
  readonly stderr: string;
}

/** Runs the command from its source; if it still runs at the end it is killed. */
function command(...args: string[]): { readonly child: ChildProcess; readonly ended: Promise<Ended> } & Disposable {
  const child = spawn(process.execPath, ['--conditions=source', CLI, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH },
  });
  const ended = Promise.all([once(child, 'exit'), text(child.stderr)]).then(([[code], stderr]) => ({ code, stderr }));
  return { child, ended, [Symbol.dispose]: () => void child.kill('SIGKILL') };
}

describe('the command', () => {
  test.each([
    [[], 'which cluster?'],
    [['--join', 'nowhere'], 'no port'],
    [['--join', 'a:1', '--router-hold-ms', 'x'], 'router.holdMs'],
  ])('wants to know where to go: %j', async (args, problem) => {
    using proxy = command('serve', ...args);
    const { code, stderr } = await proxy.ended;
    expect(code).toBe(2);
    expect(stderr).toContain(problem);
  });
});
