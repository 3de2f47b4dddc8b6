import { cp, rename, rm } from 'node:fs/promises';
import { setTimeout } from 'node:timers/promises';
import { connect } from '@taskmaster/client';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { nodeCli } from '../support/paths.ts';
import { startProcess } from '../support/processes/child-process.ts';
import { PARTITIONS, TestCluster } from '../support/processes/start-cluster.ts';

/** The node must end with an error that says what to do with which member. */
async function expectRefusal(dir: string): Promise<void> {
  const flags = ['--json', `--data-dir=${dir}`, '--grpc-port=0', '--http-port=0', '--gossip-port=0'];
  const back = await startProcess(process.execPath, [nodeCli, ...flags]);
  const { code, stdout, stderr } = await back.ended;
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  const errors = stderr.split('\n').filter((line) => /"level":("error"|50)|^taskmaster/.test(line));
  expect(errors).toEqual([expect.stringContaining('taskmaster members remove b --accept-loss')]);
}

test('a node that is started with an older copy of its directory never becomes ready, logs the next step, and ends', {
  timeout: 120_000,
}, async () => {
  await using cluster = await TestCluster.start();
  await using client = await connect(cluster.node('a').endpoint);
  const balanced = () =>
    eventually(
      async () => {
        const { members } = await client.cluster.members();
        const nodes = members.flatMap((member) => (member.role === 'node' ? [member] : []));
        for (const node of nodes) expect(node).toMatchObject({ alive: true, partitionsHeld: node.partitionsWanted });
        const held = nodes.map(({ partitionsHeld = 0 }) => partitionsHeld);
        expect(held.reduce((sum, count) => sum + count)).toBe(PARTITIONS);
      },
      { withinMs: 30_000 },
    );
  await balanced();
  const b = cluster.node('b');
  const older = `${b.dir}-older`;
  await b.stop();
  await cp(b.dir, older, { recursive: true });
  await cluster.start('b');
  await balanced();

  // No partition moves, and b tells the others of its new tasks in its next exchange.
  for (let i = 0; i < 50; i++) await client.queue(`group-${i}#q`).enqueue({ pid: 'x', data: 'x' });
  await setTimeout(10_000);
  await cluster.node('b').stop();
  const newest = `${b.dir}-newest`;
  await rename(b.dir, newest);
  await cp(older, b.dir, { recursive: true });
  await expectRefusal(b.dir);

  await rm(b.dir, { recursive: true });
  await rename(newest, b.dir);
  await cluster.start('b');
  await balanced();
  // The partitions of c go to the others.
  await client.cluster.drain('c');
  await cluster.node('c').process.ended;
  await balanced();
  await cluster.node('b').stop();
  await rm(b.dir, { recursive: true });
  await cp(older, b.dir, { recursive: true });
  await expectRefusal(b.dir);

  await eventually(() => client.cluster.remove('b', { acceptLoss: true }), { withinMs: 20_000, everyMs: 200 });
  await eventually(
    async () => {
      const { partitions } = await client.cluster.partitions();
      for (const { holder } of partitions) expect(holder?.name).toBe('a');
    },
    { withinMs: 20_000 },
  );
});
