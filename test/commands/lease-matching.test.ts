import { runCli } from '@taskmaster/cli/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { TestNode } from '../client/support/test-node.ts';

let server: TestNode;
beforeEach(async () => {
  server = await TestNode.start();
});
afterEach(() => server.kill());

const run = (...args: readonly string[]) => runCli(server.endpoint, args);

test('lease --regex --wait gets the first task of a queue that did not exist when it began', async () => {
  const leasing = run('lease', '--regex', '^shop#', '--wait', '20s', '--json');
  await expect.poll(() => server.waiting).toBe(1);
  expect(server.leases.at(-1)).toMatchObject({ queues: [], patterns: [{ nameRegex: '^shop#' }] });
  await run('enqueue', 'other#mail', '1');
  await run('enqueue', 'shop#new', '2');
  const { code, stdout } = await leasing;
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { queue: 'shop#new' }]);
});
