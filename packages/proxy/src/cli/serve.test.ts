import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const CLI = fileURLToPath(new URL('../cli.ts', import.meta.url));

interface Ended {
  readonly code: number | null;
  readonly stderr: string;
}

interface Command extends Disposable {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
}

/** Runs the command from its source; if it still runs at the end it is killed. */
function command(...args: string[]): Command {
  return commandWith({}, ...args);
}

function commandWith(env: NodeJS.ProcessEnv, ...args: string[]): Command {
  const child = spawn(process.execPath, ['--conditions=source', CLI, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, ...env },
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

  test.each([
    ['unless told otherwise', '', ['--max-semi-space-size=4', '--heap-growing-percent=300']],
    ['as far as nothing else is chosen', '--max_semi_space_size=8', ['--heap-growing-percent=300']],
  ])('bounds its memory, as the same process, %s', async (_when, chosen, bounds) => {
    const ports = ['--grpc-port=0', '--http-port=0', '--gossip-port=0'];
    using proxy = commandWith({ NODE_OPTIONS: chosen }, '--join=127.0.0.1:1', ...ports, '--json');
    const { stdout, pid } = proxy.child;
    if (stdout === null) throw new TypeError('the child has no standard output');
    const ready = await createInterface(stdout)[Symbol.asyncIterator]().next();
    expect(JSON.parse(String(ready.value))).toHaveProperty('grpc');
    const options = readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0');
    expect(options.filter((option) => /semi.space|growing/.test(option))).toEqual(bounds);
  });
});
