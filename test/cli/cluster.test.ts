import { connect } from '@taskmaster/client';
import { parseQueueName, partitionOf } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { PARTITIONS, TestCluster } from '../support/processes/start-cluster.ts';
import { playScenario } from './scenario.ts';
import { openShell } from './shell.ts';

const MINUTE_MS = 60_000;

/** `c`: the endpoint of that node. */
const threeNodes = (c: string): string => `
$ taskmaster members
NAME     STATE   ALIVE  HELD  WANTED  VERSION  ADDRESS
a        active  yes     <n>     <n>  <any>    127.0.0.1:<n>
b        active  yes     <n>     <n>  <any>    127.0.0.1:<n>
c        active  yes     <n>     <n>  <any>    127.0.0.1:<n>
3 nodes          3        ${PARTITIONS}      ${PARTITIONS}
$ taskmaster partitions
HOLDER     STATE    PARTITIONS  QUEUES  TASKS  IDS
a          serving         <n>     <n>    <n>  <any>
b          serving         <n>     <n>    <n>  <any>
c          serving         <n>     <n>    <n>  <any>
3 holders                   ${PARTITIONS}     200    200
$ taskmaster members remove c --accept-loss --yes
! taskmaster: MEMBER_ALIVE: <any>; if it has just stopped, try again in a few seconds
[1]
$ taskmaster members drain nobody
! taskmaster: UNKNOWN_MEMBER: <any>
[1]

# Asked through node c itself, which ends before it can report the result.
$ taskmaster members drain c --endpoint ${c}
c: left; <n> partitions handed over in <age>
! c: <n> of <n> partitions left
$ taskmaster partitions --holder c
! no partitions of c
$ taskmaster members --all
NAME     STATE   ALIVE  HELD  WANTED  VERSION  ADDRESS
a        active  yes     <n>     <n>  <any>    127.0.0.1:<n>
b        active  yes     <n>     <n>  <any>    127.0.0.1:<n>
c        left    -         0       0  <any>
2 nodes          2        ${PARTITIONS}      ${PARTITIONS}
$ taskmaster members drain c
! taskmaster: MEMBER_LEFT: <any>
[1]
`;

/** `alive`: a queue with a task at a running node. `dead`: one at the killed node. */
const oneIsDead = (alive: string, dead: string): string => `
$ taskmaster members b
NAME    STATE   ALIVE  HELD  WANTED  VERSION  ADDRESS
b       active  no      <n>     <n>  <any>    127.0.0.1:<n>
1 node          0       <n>     <n>
! b does not answer; <n> partitions wait for it. Restart it; if its disk is lost for good, \`taskmaster members remove b\` gives up its tasks

# Callers wait for it.
$ taskmaster peek ${dead} --timeout 3s
! taskmaster: HOLDER_UNREACHABLE: b, which holds ${dead}, does not answer; gave up after <age>; restart the node: its tasks wait for it
[3]
$ taskmaster lease ${dead} ${alive} --max 2
QUEUE  PID  TOKEN  ATTEMPT  AGE  LEASED FOR  DATA
${alive}  <any>
! some queues could not be asked for tasks: b, which holds ${dead}, does not answer
$ taskmaster partitions --summary
HOLDER     STATE        PARTITIONS  QUEUES  TASKS  IDS
a          serving             <n>     <n>    <n>  <any>
b          unreachable         <n>     <n>    <n>  <any>
2 holders                       ${PARTITIONS}     <n>    <n>
! b did not answer; QUEUES and TASKS are from its last report
[5]
$ taskmaster dead
! dead letters of b (127.0.0.1:<n>) are missing: it did not answer
[5]
$ taskmaster queues --regex ^nothing --json
! {"error":{"reason":"INCOMPLETE","message":"queues of b (127.0.0.1:<n>) are missing: it did not answer",<any>}}
[5]
$ taskmaster lease --regex ^nothing
! tasks of b (127.0.0.1:<n>) are missing: it did not answer
[5]
$ taskmaster schedule
! schedules of b (127.0.0.1:<n>) are missing: it did not answer
[5]
$ taskmaster members remove b > lost.txt
! taskmaster: LOSS_NOT_ACCEPTED: nothing was changed; to remove b for good: taskmaster members remove b --accept-loss
[1]
$ head -2 lost.txt
b: only it holds <n> tasks in <n> queues of <n> partitions<any>, by the last report
PARTITION  QUEUES  TASKS
$ taskmaster members remove b --accept-loss
! taskmaster: USAGE: confirmation needs a terminal; --yes removes b without asking
[2]
$ taskmaster members remove b --accept-loss --yes | tail -1
b: removed; lost: <n> tasks in <n> queues of <n> partitions<any>

# Its partitions are served again, empty, after some seconds.
$ while taskmaster partitions --json | grep --quiet unreachable; do sleep 0.1; done
$ taskmaster members b
NAME     STATE         ALIVE  HELD  WANTED  VERSION  ADDRESS
b        removed by a  -         0       0  <any>
0 nodes                0         0       0
$ taskmaster partitions --summary
HOLDER    STATE    PARTITIONS  QUEUES  TASKS  IDS
a         serving          ${PARTITIONS}     <n>    <n>  0-${PARTITIONS - 1}
1 holder                   ${PARTITIONS}     <n>    <n>
`;

test('an operator looks at a cluster, has a node leave and removes one', { timeout: 3 * MINUTE_MS }, async () => {
  await using cluster = await TestCluster.start({ nodes: 3 });
  await using shell = await openShell(cluster.node('a').endpoint);
  await using client = await connect(cluster.node('a').endpoint);
  const queues = Array.from({ length: 200 }, (_, i) => `group-${i}#q`);
  for (const [i, queue] of queues.entries()) await client.queue(queue).enqueue(i);
  const settled = async (nodes: number): Promise<void> => {
    const { members } = await client.cluster.members();
    const here = members.filter((member) => member.role === 'node').filter(({ state }) => state === 'active');
    expect(here).toHaveLength(nodes);
    expect(here.every(({ partitionsHeld, partitionsWanted }) => partitionsHeld === partitionsWanted)).toBe(true);
    expect(here.reduce((sum, { partitionsHeld }) => sum + partitionsHeld, 0)).toBe(PARTITIONS);
  };
  const play = async (scenario: string): Promise<void> => {
    const { expected, actual } = await playScenario(scenario, shell);
    expect(actual).toBe(expected);
  };
  await eventually(() => settled(3), { withinMs: MINUTE_MS });
  await play(threeNodes(cluster.node('c').endpoint));
  expect((await cluster.node('c').process.ended).code).toBe(0);
  await cluster.node('b').kill();
  await eventually(async () => {
    const { members } = await client.cluster.members();
    expect(members.find(({ name }) => name === 'b')?.alive).toBe(false);
  });
  const { partitions } = await client.cluster.partitions();
  const queueOf = (name: string): string => {
    const holds = (queue: string): boolean =>
      partitions[partitionOf(parseQueueName(queue).group, PARTITIONS)]?.holder?.name === name;
    return queues.find(holds) ?? expect.unreachable(`${name} holds one of many groups`);
  };
  await play(oneIsDead(queueOf('a'), queueOf('b')));
});
