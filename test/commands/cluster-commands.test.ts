import { type CliEnded, runCli, startCli } from '@taskmaster/cli/testing';
import { MemberRole, MemberState, PartitionState } from '@taskmaster/proto';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type FakeCluster, fakeMember, fakePartition } from '../client/support/fake-cluster.ts';
import { TestNode } from '../client/support/test-node.ts';

/** The default of one second is too short on a busy machine. */
const PATIENCE = { timeout: 30_000 };

let server: TestNode;
let cluster: FakeCluster;
beforeEach(async () => {
  server = await TestNode.start();
  cluster = server.cluster;
});
afterEach(() => server.kill());

function run(...args: string[]): Promise<CliEnded> {
  return runCli(server.endpoint, args);
}

/** Output with the columns as wide as they are, to be compared line by line. */
function lines(...expected: string[]): string {
  return expected.map((line) => `${line}\n`).join('');
}

/** Two nodes of which one is dead, a node that has left, and a proxy. */
function threeNodes(): void {
  cluster.members = [
    fakeMember({ name: 'a', partitionsHeld: 3, partitionsWanted: 2, rpcAddress: '127.0.0.1:1' }),
    fakeMember({ name: 'b', partitionsHeld: 1_024, partitionsWanted: 1_025, alive: false, version: '' }),
    fakeMember({ name: 'old', state: MemberState.MEMBER_STATE_LEFT, alive: false, removedBy: 'a' }),
    fakeMember({ name: 'p', role: MemberRole.MEMBER_ROLE_PROXY, state: 0, suspect: true, rpcAddress: '127.0.0.1:2' }),
  ];
}

describe('members', () => {
  test('lists members that have not left, proxies last, and names the nodes that wait for an operator', async () => {
    threeNodes();
    const listed = {
      code: 0,
      stdout: lines(
        'NAME     STATE   ALIVE     HELD  WANTED  VERSION  ADDRESS',
        'a        active  yes          3       2  0.1.0    127.0.0.1:1',
        'b        active  no       1,024   1,025  -        -',
        'p        proxy   suspect      -       -  0.1.0    127.0.0.1:2',
        '2 nodes          1        1,027   1,027',
      ),
      stderr: lines(
        'b does not answer; 1,024 partitions wait for it. Restart it; if its disk is lost for good, `taskmaster members remove b` gives up its tasks',
      ),
    };
    expect(await run('members')).toEqual(listed);
    expect(await run('members', 'list')).toEqual(listed);
  });

  test('lists members that have left with --all, or if they are named', async () => {
    threeNodes();
    const { stdout } = await run('members', '--all', '--json');
    expect(
      stdout
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line).name),
    ).toEqual(['a', 'b', 'old', 'p']);
    expect((await run('members', 'old')).stdout).toContain('removed by a');
  });

  test('prints one JSON object per line, without fields that do not apply', async () => {
    threeNodes();
    const { stdout, stderr } = await run('members', 'a', 'p', '--json');
    expect(stdout).toBe(
      lines(
        '{"name":"a","nodeId":"id-a","role":"node","state":"active","held":3,"wanted":2,"alive":true,"suspect":false,"version":"0.1.0","rpcAddress":"127.0.0.1:1"}',
        '{"name":"p","nodeId":"id-p","role":"proxy","alive":true,"suspect":true,"version":"0.1.0","rpcAddress":"127.0.0.1:2"}',
      ),
    );
    expect(stderr).toBe('');
  });

  test('is refused by a node without a cluster', async () => {
    expect(await run('members')).toEqual({
      code: 1,
      stdout: '',
      stderr: lines('taskmaster: NO_CLUSTER: this node stands alone'),
    });
  });

  test('distinguishes unknown members and unknown commands', async () => {
    threeNodes();
    const { code, stderr } = await run('members', 'drian', 'b');
    expect(code).toBe(1);
    expect(stderr).toContain('UNKNOWN_MEMBER: no member is named drian');
  });
});

describe('members drain', () => {
  test('waits until the member has left', async () => {
    threeNodes();
    const last = await run('members', 'drain', 'a');
    expect(last).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('LAST_MEMBER') });
    cluster.members[1] = fakeMember({ name: 'b', partitionsHeld: 1 });
    const { code, stdout, stderr } = await run('members', 'drain', 'a');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^a: left; 3 partitions handed over in \S+\n$/);
    expect(stderr).toBe('a: 3 of 3 partitions left\n');
    expect(cluster.members[0]?.state).toBe(MemberState.MEMBER_STATE_LEFT);
  });

  test('shows its progress on a terminal', async () => {
    threeNodes();
    cluster.members[1] = fakeMember({ name: 'b' });
    cluster.handedOverPerPoll = 0;
    const running = startCli(server.endpoint, ['members', 'drain', 'a'], { isTerminal: true });
    await vi.waitUntil(() => running.stderr.includes('3 of 3 partitions left'), PATIENCE);
    cluster.handedOverPerPoll = 1;
    expect((await running.ended).code).toBe(0);
  });

  test('names the members that it waits for', async () => {
    threeNodes();
    cluster.members[1] = fakeMember({ name: 'b', alive: false, partitionsHeld: 2, partitionsWanted: 4 });
    cluster.members.push(fakeMember({ name: 'c' }));
    cluster.handedOverPerPoll = 0;
    const running = startCli(server.endpoint, ['members', 'drain', 'a'], { isTerminal: true });
    await vi.waitUntil(
      () => running.stderr.includes('3 of 3 partitions left; waits for b: restart or remove it'),
      PATIENCE,
    );
    cluster.members[1] = fakeMember({ name: 'b', partitionsHeld: 2, partitionsWanted: 4 });
    cluster.handedOverPerPoll = 1;
    expect((await running.ended).code).toBe(0);
  });

  test('says after an interruption that the drain continues', async () => {
    threeNodes();
    cluster.members[1] = fakeMember({ name: 'b' });
    cluster.handedOverPerPoll = 0;
    const running = startCli(server.endpoint, ['members', 'drain', 'a']);
    await vi.waitUntil(() => running.stderr.includes('3 of 3'), PATIENCE);
    running.interrupt();
    const { code, stdout, stderr } = await running.ended;
    expect({ code, stdout }).toEqual({ code: 130, stdout: '' });
    expect(stderr).toContain('a is still leaving: 3 of 3 partitions left; `taskmaster members` shows its progress');
    expect(cluster.members[0]?.state).toBe(MemberState.MEMBER_STATE_LEAVING);
  });

  test('returns at once with --no-wait', async () => {
    threeNodes();
    cluster.members[1] = fakeMember({ name: 'b' });
    expect(await run('members', 'drain', 'a', '--no-wait', '--json')).toEqual({
      code: 0,
      stdout: lines('{"name":"a","nodeId":"id-a","state":"leaving","held":3}'),
      stderr: '',
    });
  });

  test('of the member at the endpoint continues through another member after its end', async () => {
    await using other = await TestNode.start();
    threeNodes();
    const b = fakeMember({ name: 'b', rpcAddress: other.endpoint });
    cluster.members[1] = b;
    cluster.handedOverPerPoll = 0;
    other.cluster.members = [fakeMember({ name: 'a', state: MemberState.MEMBER_STATE_LEFT, alive: false }), b];
    const running = startCli(server.endpoint, ['members', 'drain', 'a', '--timeout', '1s']);
    await vi.waitUntil(() => running.stderr.includes('3 of 3'), PATIENCE);
    server.kill();
    expect(await running.ended).toMatchObject({ code: 0, stdout: expect.stringContaining('a: left') });
  });

  test('ends with 3 when no node answers any more, and reports what is left', async () => {
    threeNodes();
    cluster.members[1] = fakeMember({ name: 'b' });
    cluster.handedOverPerPoll = 0;
    const running = startCli(server.endpoint, ['members', 'drain', 'a', '--timeout', '300ms']);
    await vi.waitUntil(() => running.stderr.includes('3 of 3'), PATIENCE);
    server.kill();
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(3);
    expect(stderr).toContain('a is still leaving: 3 of 3 partitions left');
  });

  test('fails if the member is resumed meanwhile', async () => {
    threeNodes();
    cluster.members[1] = fakeMember({ name: 'b' });
    cluster.handedOverPerPoll = 0;
    const running = startCli(server.endpoint, ['members', 'drain', 'a']);
    await vi.waitUntil(() => running.stderr.includes('3 of 3'), PATIENCE);
    expect(await run('members', 'resume', 'a')).toEqual({
      code: 0,
      stdout: 'a: stays, with 3 partitions; `taskmaster members` shows what comes back\n',
      stderr: '',
    });
    const { code, stderr } = await running.ended;
    expect(code).toBe(1);
    expect(stderr).toContain('MEMBER_RESUMED: a stays: its drain was taken back');
    expect(stderr).not.toContain('still leaving');
  });

  test('fails if the member is removed meanwhile', async () => {
    threeNodes();
    cluster.members[1] = fakeMember({ name: 'b' });
    cluster.handedOverPerPoll = 0;
    const running = startCli(server.endpoint, ['members', 'drain', 'a']);
    await vi.waitUntil(() => running.stderr.includes('3 of 3'), PATIENCE);
    Object.assign(cluster.members[0] ?? {}, { state: MemberState.MEMBER_STATE_LEFT, removedBy: 'b' });
    const { code, stderr } = await running.ended;
    expect(code).toBe(1);
    expect(stderr).toContain(
      'MEMBER_LEFT: a was removed by b while it was leaving; the tasks that it still held are lost',
    );
  });
});

describe('members remove', () => {
  beforeEach(() => {
    threeNodes();
    cluster.lost = [
      { id: 3, counted: true, queues: 2, tasks: 1_500, member: 'b' },
      { id: 4, counted: true, queues: 0, tasks: 0, member: 'b' },
      { id: 9, counted: false, queues: 0, tasks: 0, member: 'b' },
    ];
    cluster.takenBackBy = ['a'];
  });
  const report = [
    'b: only it holds 1,500 tasks in 2 queues of 3 partitions (1 with unknown content), by the last report',
    'PARTITION  QUEUES  TASKS',
    '        3       2  1,500',
    '        9       ?      ?',
    'and 1 empty partition',
    'not lost: partitions that were moving there, because a still has them',
    'Make sure that b is stopped: changes that it still acknowledges are lost.',
  ];

  test('without --accept-loss reports the loss and the next step', async () => {
    expect(await run('members', 'remove', 'b')).toEqual({
      code: 1,
      stdout: lines(...report),
      stderr: lines(
        'taskmaster: LOSS_NOT_ACCEPTED: nothing was changed; to remove b for good: taskmaster members remove b --accept-loss',
      ),
    });
    expect(cluster.members[1]?.state).toBe(MemberState.MEMBER_STATE_ACTIVE);
  });

  test('with --yes reports the loss, removes the member, and reports the result', async () => {
    expect(await run('members', 'remove', 'b', '--accept-loss', '--yes')).toEqual({
      code: 0,
      stdout: lines(
        ...report,
        'b: removed; lost: 1,500 tasks in 2 queues of 3 partitions (1 with unknown content); not lost: partitions that were moving there, because a still has them',
      ),
      stderr: '',
    });
    expect(cluster.members[1]?.state).toBe(MemberState.MEMBER_STATE_LEFT);
  });

  test('asks for confirmation on a terminal, and changes nothing unless the answer is yes', async () => {
    for (const [answer, code, state] of [
      ['n\r', 1, MemberState.MEMBER_STATE_ACTIVE],
      ['yes\r', 0, MemberState.MEMBER_STATE_LEFT],
    ] as const) {
      const running = startCli(server.endpoint, ['members', 'remove', 'b', '--accept-loss'], { isTerminal: true });
      await vi.waitUntil(() => running.stderr.includes('Remove b and lose 1,500 tasks'), PATIENCE);
      running.type(answer);
      expect((await running.ended).code).toBe(code);
      expect(cluster.members[1]?.state).toBe(state);
    }
  });

  test('does not ask for confirmation without a terminal', async () => {
    expect(await run('members', 'remove', 'b', '--accept-loss')).toEqual({
      code: 2,
      stdout: '',
      stderr: lines('taskmaster: USAGE: confirmation needs a terminal; --yes removes b without asking'),
    });
    expect(server.unaryCalls).toEqual([]);
  });

  test('prints one JSON object, before and after the removal', async () => {
    const lost =
      '"lost":[{"id":3,"member":"b","queues":2,"tasks":1500},{"id":4,"member":"b","queues":0,"tasks":0},{"id":9,"member":"b"}],"takenBackBy":["a"]';
    const before = await run('members', 'remove', 'b', '--json');
    expect(before.stdout).toBe(lines(`{"names":["b"],"removed":false,"claimed":false,${lost}}`));
    expect(JSON.parse(before.stderr).error.reason).toBe('LOSS_NOT_ACCEPTED');
    const after = await run('members', 'remove', 'b', '--accept-loss', '--yes', '--json');
    expect(after).toEqual({
      code: 0,
      stdout: lines(`{"names":["b"],"removed":true,"claimed":true,${lost}}`),
      stderr: '',
    });
  });

  test('of several members reports which member held each partition', async () => {
    cluster.members.push(fakeMember({ name: 'c', alive: false }));
    cluster.lost = [
      { id: 3, counted: true, queues: 2, tasks: 1_500, member: 'b' },
      { id: 5, counted: true, queues: 1, tasks: 8, member: 'c' },
      { id: 9, counted: false, queues: 0, tasks: 0, member: '' },
    ];
    const alone = await run('members', 'remove', 'b');
    expect(alone).toMatchObject({ code: 3, stdout: '', stderr: expect.stringContaining('do not answer: c') });
    const told = await run('members', 'remove', 'b', 'c', 'b');
    expect(told.stdout).toBe(
      lines(
        'b, c: only they hold 1,508 tasks in 3 queues of 3 partitions (1 with unknown content), by the last report',
        'PARTITION  QUEUES  TASKS  MEMBER',
        '        3       2  1,500  b',
        '        5       1      8  c',
        '        9       ?      ?  ?',
        'not lost: partitions that were moving there, because a still has them',
        'Make sure that b, c are stopped: changes that they still acknowledge are lost.',
      ),
    );
    expect(told.stderr).toContain('to remove b, c for good: taskmaster members remove b c --accept-loss');
    const { code, stdout, stderr } = await run('members', 'remove', 'b', 'c', '--accept-loss', '--yes');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain('b, c: removed; lost: 1,508 tasks');
    expect(cluster.members.filter(({ removedBy }) => removedBy === 'a').map(({ name }) => name)).toEqual(
      expect.arrayContaining(['b', 'c']),
    );
  });

  test('says if the lost partitions are not served again yet', async () => {
    cluster.claimMs = 60_000;
    const { code, stderr } = await run('members', 'remove', 'b', '--accept-loss', '--yes');
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: lines(
        '3 partitions will be served again when all remaining members have answered; `taskmaster partitions` shows it',
      ),
    });
  });

  test('of a running member is refused, with the next step', async () => {
    const { code, stderr } = await run('members', 'remove', 'a', '--accept-loss', '--yes');
    expect(code).toBe(1);
    expect(stderr).toContain('MEMBER_ALIVE: a answers; if it has just stopped, try again in a few seconds');
  });
});

describe('partitions', () => {
  beforeEach(() => {
    threeNodes();
    cluster.partitions = [
      fakePartition({ id: 0, holder: 'a', queues: 1, tasks: 5 }),
      fakePartition({ id: 1, holder: 'a' }),
      fakePartition({
        id: 2,
        holder: 'a',
        epoch: 3,
        state: PartitionState.PARTITION_STATE_MOVING,
        queues: 4,
        tasks: 2_000,
        wanted: 'b',
        movingTo: 'b',
        movedRows: 700,
        movedBytes: 70_000,
      }),
      fakePartition({ id: 3, holder: 'a', wanted: 'b' }),
      fakePartition({ id: 4, holder: 'b', state: PartitionState.PARTITION_STATE_UNREACHABLE, tasks: 9, wanted: 'a' }),
      fakePartition({ id: 5, holder: '' }),
    ];
    cluster.unreachable = ['b'];
  });
  const unreachable = lines('b did not answer; QUEUES and TASKS are from its last report');

  test('are shown by holder, and moving ones one by one', async () => {
    expect(await run('partitions')).toEqual({
      code: 5,
      stdout: lines(
        'HOLDER     STATE        PARTITIONS  QUEUES  TASKS  IDS',
        'a          serving               3       1      5  0-1, 3',
        'a          moving                1       4  2,000  2',
        'b          unreachable           1       0      9  4',
        '?          serving               1       0      0  5',
        '2 holders                        6       5  2,014',
        '',
        'ID  HOLDER  EPOCH  STATE    QUEUES  TASKS  MOVING TO',
        ' 2  a           3  moving        4  2,000  b, 700 rows, 68.4 KiB sent',
        ' 3  a           1  serving       0      0  b, waiting',
      ),
      stderr: unreachable,
    });
    const { stdout } = await run('partitions', '--summary');
    expect(stdout).not.toContain('MOVING TO');
    expect(stdout).toContain('2 holders');
  });

  test.each([
    [['--all'], [0, 1, 2, 3, 4, 5]],
    [
      ['--holder', 'a'],
      [0, 1, 2, 3],
    ],
    [['--moving'], [2, 3, 4]],
    [['--holder', 'b', '--moving'], [4]],
  ])('are shown each with %j', async (flags, ids) => {
    const { stdout, stderr } = await run('partitions', ...flags);
    const [header, ...rows] = stdout.trimEnd().split('\n');
    expect(header).toMatch(/^ID +HOLDER/);
    expect(rows.map((row) => Number.parseInt(row, 10))).toEqual(ids);
    expect(stderr).toBe(unreachable);
    const json = await run('partitions', ...flags, '--json');
    expect(JSON.parse(json.stderr)).toMatchObject({ error: { reason: 'INCOMPLETE', names: ['b'] } });
    expect(
      json.stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).id),
    ).toEqual(ids);
  });

  test('are JSON objects, one per line: one for each partition, or for each holder and state', async () => {
    const each = (await run('partitions', '--json')).stdout.split('\n');
    expect(each).toHaveLength(7);
    expect(each[2]).toBe(
      '{"id":2,"holder":"a","holderNodeId":"id-a","epoch":3,"state":"moving","queues":4,"tasks":2000,"wanted":"b","movingTo":"b","movedRows":700,"movedBytes":70000}',
    );
    expect(each[5]).toBe('{"id":5,"epoch":1,"state":"serving","queues":0,"tasks":0}');
    expect((await run('partitions', '--summary', '--json', '--holder', 'a')).stdout).toBe(
      lines(
        '{"holder":"a","state":"serving","partitions":3,"queues":1,"tasks":5,"ids":[0,1,3]}',
        '{"holder":"a","state":"moving","partitions":1,"queues":4,"tasks":2000,"ids":[2]}',
      ),
    );
  });

  test('may match no partition', async () => {
    const { code, stdout, stderr } = await run('partitions', '--holder', 'nobody', '--moving');
    expect({ code, stdout }).toEqual({ code: 5, stdout: '' });
    expect(stderr).toBe(`no partitions of nobody that move\n${unreachable}`);
  });

  test('that wait to move are many after a node has joined: some are shown', async () => {
    cluster.partitions = Array.from({ length: 100 }, (_, id) => fakePartition({ id, holder: 'a', wanted: 'b' }));
    cluster.unreachable = [];
    const { stdout, stderr } = await run('partitions');
    expect(stdout.split('b, waiting')).toHaveLength(21);
    expect(stderr).toBe('80 more wait to move; --moving shows them\n');
  });
});
