import { runCli } from '@taskmaster/cli/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { fakeMember, fakePartition } from '../client/support/fake-cluster.ts';
import { TestNode } from '../client/support/test-node.ts';

const B = { nodeId: 'id-b', name: 'b', address: '127.0.0.1:2', problem: 'timeout' };

let server: TestNode;
beforeEach(async () => {
  server = await TestNode.start();
  server.cluster.members = [fakeMember({ name: 'a', rpcAddress: server.endpoint })];
  server.cluster.partitions = [fakePartition({ id: 0, holder: 'a' })];
});
afterEach(() => server.kill());

const run = (...args: readonly string[]) => runCli(server.endpoint, args);

/** Commands that ask several nodes, with their exit codes if all of them answer and have nothing. */
const gathering: readonly (readonly [string, string, number, string])[] = [
  ['queues', 'queues', 0, 'no queues'],
  ['queues --sharded', 'queues', 0, 'no queues'],
  ['queues --group g', 'queues', 0, 'no queues'],
  ['stats', 'queues', 0, ''],
  ['stats --sharded', 'queues', 0, ''],
  ['stats --group g', 'queues', 0, ''],
  ['watch --count 1', 'queues', 0, ''],
  ['dead', 'dead letters', 4, 'no dead letters'],
  ['dead list --group g', 'dead letters', 4, 'no dead letters'],
  ['dead retry --group g', 'dead letters', 4, ''],
  ['dead drop --group g --yes', 'dead letters', 4, ''],
  ['schedule', 'schedules', 0, 'no schedules'],
  ['schedule list g', 'schedules', 0, 'no schedules'],
  ['lease --regex q', 'tasks', 4, 'no task to lease'],
  ['lease --group g', 'tasks', 4, 'no task to lease'],
  ['lease --regex q --exec true', 'tasks', 4, ''],
];

test.each(gathering)('%s says which nodes are missing, and exits with 5', async (line, what, code, nothing) => {
  const args = line.split(' ');
  const complete = await run(...args);
  expect(complete).toMatchObject({ code, stderr: expect.stringContaining(nothing) });
  server.cluster.silent = [B];
  const { stderr, ...partial } = await run(...args);
  const text = `${what} of b (127.0.0.1:2) are missing: it did not answer`;
  expect(partial.code).toBe(5);
  expect(stderr).toContain(text);
  // It does not say that there is nothing, which it does not know.
  expect(stderr).not.toContain('no ');
  const forPrograms = await run(...args, '--json');
  expect(forPrograms.code).toBe(5);
  const { problem: _, ...node } = B;
  expect(JSON.parse(forPrograms.stderr)).toEqual({ error: { reason: 'INCOMPLETE', message: text, nodes: [node] } });
});

test('sums that are incomplete say so to programs', async () => {
  expect(JSON.parse((await run('stats', '--json')).stdout)).not.toHaveProperty('incomplete');
  server.cluster.silent = [B, { ...B, nodeId: 'id-c', name: '', address: '' }];
  const { stdout, stderr } = await run('stats', '--json');
  expect(JSON.parse(stdout)).toMatchObject({ incomplete: true, totals: { queues: 0 } });
  expect(JSON.parse(stderr).error.message).toBe('queues of b (127.0.0.1:2), id-c are missing: they did not answer');
});

test('figures of partitions that are old have the exit code, too', async () => {
  expect((await run('partitions')).code).toBe(0);
  server.cluster.unreachable = ['b'];
  const message = 'b did not answer; QUEUES and TASKS are from its last report';
  expect(await run('partitions')).toMatchObject({ code: 5, stderr: `${message}\n` });
  const { code, stderr } = await run('partitions', '--json');
  expect([code, JSON.parse(stderr)]).toEqual([5, { error: { reason: 'INCOMPLETE', message, names: ['b'] } }]);
});

test('what was asked for by name is complete', async () => {
  server.cluster.silent = [B];
  expect(await run('stats', 'q')).toMatchObject({ code: 0, stderr: '' });
  expect(await run('dead', 'q.dead')).toMatchObject({ code: 4, stderr: 'no dead letters\n' });
  expect(await run('lease', 'q')).toMatchObject({ code: 4, stderr: 'q: no task to lease\n' });
});

test('a watch on a terminal shows what is missing above the table', async () => {
  server.cluster.silent = [B];
  const { code, stdout } = await runCli(server.endpoint, ['watch', '--count', '1'], { isTerminal: true });
  expect(code).toBe(5);
  expect(stdout).toContain('queues of b (127.0.0.1:2) are missing: it did not answer');
});
