import { fileURLToPath } from 'node:url';
import { MIB } from '@taskmaster/server/memory';
import { describe, expect, test } from 'vitest';
import { completeProxyConfig } from '../config.ts';
import { proxyBoundsOf } from '../memory.ts';
import { memoryBoundsOf, readyLine, runCommand } from '../testing/run-command.ts';

const CLI = { source: fileURLToPath(new URL('../cli.ts', import.meta.url)), name: 'proxy' } as const;

const FREE_PORTS = ['--grpc-port=0', '--http-port=0', '--gossip-port=0'];

const MOST_OLD = `--max-old-space-size=${proxyBoundsOf(completeProxyConfig({ memory: 300 * MIB }).memory).oldMostMib}`;

describe('the command', () => {
  test.each([
    [[], ['--join is missing']],
    [['--join', 'a:1', '--memory=100MiB'], ['memory: 100MiB is too little: a proxy needs at least']],
    [
      ['--join', 'nowhere', '--router-hold-timeout-ms', 'x'],
      ['no port', 'router.holdTimeoutMs'],
    ],
  ])('and `config check` end with 2 if the settings are wrong: %j', async (args, problems) => {
    for (const command of [['serve'], ['config', 'check']]) {
      using proxy = runCommand(CLI, [...command, ...args]);
      const { code, stderr } = await proxy.ended;
      expect(code).toBe(2);
      for (const problem of problems) expect(stderr).toContain(problem);
    }
  });

  test.each([
    ['SIGTERM', '', ['--max-semi-space-size=4', '--heap-growing-percent=300', MOST_OLD]],
    ['SIGINT', '--max_semi_space_size=8', ['--heap-growing-percent=300', MOST_OLD]],
    ['SIGHUP', undefined, undefined],
  ] as const)(
    'ends cleanly after %s; with NODE_OPTIONS=%j its process has the bounds %j',
    async (signal, options, bounds) => {
      using proxy = runCommand(CLI, ['--join=127.0.0.1:1', ...FREE_PORTS, '--memory=300MiB', '--json'], {
        env: { NODE_OPTIONS: options },
        asShipped: true,
      });
      await readyLine(proxy);
      if (bounds !== undefined) expect(memoryBoundsOf(proxy)).toEqual([...bounds, 'MALLOC_ARENA_MAX=2']);
      proxy.child.kill(signal);
      const { code, stderr } = await proxy.ended;
      expect(code).toBe(0);
      expect(stderr).toContain('"msg":"stopped"');
    },
  );
});
