import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { memoryBoundsOf, readyLine, runCommand } from '../testing/run-command.ts';

const CLI = fileURLToPath(new URL('../cli.ts', import.meta.url));

describe('the command', () => {
  test.each([
    [[], '--join is missing'],
    [['--join', 'nowhere'], 'no port'],
    [['--join', 'a:1', '--router-hold-timeout-ms', 'x'], 'router.holdTimeoutMs'],
  ])('wants to know where to go: %j', async (args, problem) => {
    using proxy = runCommand(CLI, ['serve', ...args]);
    const { code, stderr } = await proxy.ended;
    expect(code).toBe(2);
    expect(stderr).toContain(problem);
  });

  test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('ends cleanly by %s', async (signal) => {
    const args = ['--join=127.0.0.1:1', '--grpc-port=0', '--http-port=0', '--gossip-port=0', '--json'];
    using proxy = runCommand(CLI, args);
    await readyLine(proxy);
    proxy.child.kill(signal);
    const { code, stderr } = await proxy.ended;
    expect(code).toBe(0);
    expect(stderr).toContain('"msg":"stopped"');
  });

  test.each([
    ['unless told otherwise', '', ['--max-semi-space-size=4', '--heap-growing-percent=300']],
    ['as far as nothing else is chosen', '--max_semi_space_size=8', ['--heap-growing-percent=300']],
  ])('bounds its memory, as the same process, %s', async (_when, chosen, bounds) => {
    const args = ['--join=127.0.0.1:1', '--grpc-port=0', '--http-port=0', '--gossip-port=0', '--json'];
    using proxy = runCommand(CLI, args, { env: { NODE_OPTIONS: chosen } });
    await readyLine(proxy);
    expect(memoryBoundsOf(proxy)).toEqual([...bounds, 'MALLOC_ARENA_MAX=2']);
  });
});
