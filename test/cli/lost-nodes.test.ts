import { connect } from '@taskmaster/client';
import { expect, test } from 'vitest';
import { PARTITIONS, TestCluster } from '../support/processes/start-cluster.ts';
import { playScenario } from './scenario.ts';
import { openShell } from './shell.ts';

const MINUTE_MS = 60_000;
const TASKS = 50;

const twoAreLost = `
$ taskmaster members remove b --accept-loss --yes
! taskmaster: HOLDER_UNREACHABLE: members that do not answer: c<any>name them too if they are lost for good<any>
[3]
$ taskmaster members remove b a
! taskmaster: MEMBER_ALIVE: <any>
[1]
$ taskmaster members remove b c > lost.txt
! taskmaster: LOSS_NOT_ACCEPTED: nothing was changed; to remove b, c for good: taskmaster members remove b c --accept-loss
[1]
$ head -1 lost.txt
b, c: only they hold <n> partitions with unknown content, by the last report
$ taskmaster members remove b c --accept-loss --yes --json | jq -c '[.names, .removed, .claimed]'
[["b","c"],true,true]

# By then their partitions are served again, empty, and the other partitions are as before.
$ taskmaster partitions --summary
HOLDER    STATE    PARTITIONS  QUEUES  TASKS  IDS
a         serving          ${PARTITIONS}     <n>    <n>  0-${PARTITIONS - 1}
1 holder                   ${PARTITIONS}     <n>    <n>
$ taskmaster members
NAME     STATE   ALIVE  HELD  WANTED  VERSION  ADDRESS
a        active  yes      ${PARTITIONS}      ${PARTITIONS}  <any>    127.0.0.1:<n>
1 node           1        ${PARTITIONS}      ${PARTITIONS}
`;

test('an operator removes two of three nodes whose disks are lost', { timeout: 3 * MINUTE_MS }, async () => {
  await using cluster = await TestCluster.start({ nodes: 3 });
  {
    await cluster.inPlace();
    await using client = await cluster.connect();
    for (let i = 0; i < TASKS; i++) await client.queue(`group-${i}#q`).enqueue(i);
  }
  for (const name of ['a', 'b', 'c']) await cluster.node(name).kill();
  const a = await cluster.start('a');
  await using shell = await openShell(a.endpoint);
  const { expected, actual } = await playScenario(twoAreLost, shell);
  expect(actual).toBe(expected);
  await using client = await connect(a.endpoint);
  const { totals } = await client.stats();
  expect(totals.available).toBeGreaterThan(0);
  expect(totals.available).toBeLessThan(TASKS);
  await client.queue('group-1#q').enqueue('after');
});
