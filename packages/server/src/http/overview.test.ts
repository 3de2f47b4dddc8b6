import { Refusal } from '@taskmaster/engine/domain';
import {
  type Member,
  MemberRole,
  MemberState,
  methods,
  type NodeOverview,
  type Partition,
  PartitionState,
  type ReplyOf,
  type RequestOf,
  type Trouble,
  TroubleSeverity,
} from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { type CallerAccess, CLUSTER_ITSELF, unlimitedAccess } from '../access/caller-access.ts';
import type { UnaryHandler } from '../calls/index.ts';
import type { RoutedNode } from '../ports/index.ts';
import { accessOf } from '../testing/index.ts';
import { Overview } from './overview.ts';

const STEP = 10_000;
const NOW = 1_700_000_000_000;

const member = (name: string, change: Partial<Member> = {}): Member => ({
  name,
  nodeId: `id-${name}`,
  role: MemberRole.MEMBER_ROLE_NODE,
  state: MemberState.MEMBER_STATE_ACTIVE,
  alive: true,
  suspect: false,
  partitionsHeld: 2,
  partitionsWanted: 2,
  version: '1.2.3',
  rpcAddress: `${name}:7400`,
  gossipAddress: `${name}:7402`,
  httpAddress: `${name}:7401`,
  removedBy: '',
  ...change,
});

const trouble = (change: Partial<Trouble>): Trouble => ({
  kind: 'queue-old',
  severity: TroubleSeverity.TROUBLE_SEVERITY_WARNING,
  message: 'its oldest task is old',
  sinceUnixMs: NOW - 5,
  sinceIsExact: true,
  queue: '',
  ...change,
});

const history = (available: number[], last = NOW): NodeOverview['history'] => ({
  stepMs: STEP,
  lastUnixMs: last,
  available,
  leased: available.map(() => 1),
  delayed: available.map(() => 0),
  enqueued: available.map(() => 0.5),
  completed: available.map(() => -1),
  failed: available.map(() => 0),
  deadLettered: available.map(() => 0),
});

const node = (name: string, change: Partial<NodeOverview> = {}): NodeOverview => ({
  nodeId: `id-${name}`,
  name,
  version: '1.2.3',
  health: 'serving',
  totals: { queues: 1, available: 2, leased: 3, delayed: 4, waiting: 0, completed: 5 },
  deadLettered: 1,
  waitingLeases: 1,
  rates: { enqueued: 1.5, leased: 1, completed: 1, failed: 0.25, deadLettered: 0 },
  troubles: [],
  troubledQueues: 0,
  history: history([1, 2]),
  changes: [],
  ...change,
});

const partition = (id: number, holder: string, change: Partial<Partition> = {}): Partition => ({
  id,
  holder,
  holderNodeId: `id-${holder}`,
  epoch: 1,
  state: PartitionState.PARTITION_STATE_SERVING,
  queues: 1,
  tasks: 1,
  wanted: holder,
  movingTo: '',
  movedRows: 0,
  movedBytes: 0,
  ...change,
});

type Answers = { [K in 'getOverview' | 'listMembers' | 'listPartitions']: (request: RequestOf<K>) => ReplyOf<K> };

/** The page of a cluster of two nodes and what it asks for. */
function setUp(answers: Partial<Answers> = {}) {
  const world = {
    now: NOW,
    asked: [] as string[],
    /** Principals with whose rights nodes may be asked, beside the cluster itself, and those with whose rights they were. */
    askers: [] as string[],
    askedBy: [] as string[],
    alive: { a: true, b: true } as Record<string, boolean>,
    clocks: [] as { nodeId: string; member: string; aheadMs: number }[],
    changes: [] as string[],
    answers: {
      getOverview: () => ({ nodes: [node('a'), node('b')], unreachable: [] }),
      listMembers: () => ({ clusterId: 'c', partitions: 4, members: [member('a'), member('b')] }),
      listPartitions: () => ({ partitions: [partition(0, 'a'), partition(1, 'b')], unreachable: [] }),
      ...answers,
    } as Answers,
  };
  const handlerOf =
    (key: keyof Answers): UnaryHandler =>
    async (bytes, caller) => {
      const { principal } = caller.access;
      expect([CLUSTER_ITSELF, ...world.askers]).toContain(principal);
      if (principal !== CLUSTER_ITSELF) world.askedBy.push(principal);
      const request = methods[key].requestDeserialize(bytes);
      world.asked.push(key === 'getOverview' ? `${key} ${(request as RequestOf<'getOverview'>).afterUnixMs}` : key);
      const answer = world.answers[key] as (request: unknown) => never;
      return methods[key].responseSerialize(answer(request));
    };
  const overview = new Overview({
    servedBy: () => ({ role: 'node', name: 'a' }),
    methods: () => ({
      GetOverview: handlerOf('getOverview'),
      ListMembers: handlerOf('listMembers'),
      ListPartitions: handlerOf('listPartitions'),
    }),
    nodes: () =>
      Object.entries(world.alive).map(
        ([name, alive]): RoutedNode => ({ nodeId: `id-${name}`, name, address: `${name}:7400`, alive }),
      ),
    clocks: () => world.clocks,
    changes: () => world.changes,
    wall: () => world.now,
  });
  const page = async (query = '', access: CallerAccess = unlimitedAccess) =>
    JSON.parse((await overview.reply(new URLSearchParams(query), access)).body) as Record<string, unknown> & {
      attention: Record<string, unknown>[];
      history: { at: number[]; available: number[] };
    };
  return { world, overview, page };
}

const refuse = (reason: 'NO_CLUSTER' | 'HOLDER_UNREACHABLE') => (): never => {
  throw new Refusal(reason, 'no');
};

describe('an overview', () => {
  test('has the sums of all nodes', async () => {
    const { page } = setUp();
    expect(await page()).toMatchObject({
      at: NOW,
      servedBy: { role: 'node', name: 'a' },
      members: [
        { id: 'id-a', name: 'a', role: 'node', address: 'a:7400', http: 'a:7401', state: 'active', health: 'serving' },
        { id: 'id-b', name: 'b' },
      ],
      unreachable: [],
      partitions: { total: 2, served: 2, unserved: 0, moving: [] },
      totals: { queues: 2, available: 4, leased: 6, delayed: 8, deadLettered: 2, enqueueRate: 3, failRate: 0.5 },
      attention: [],
      history: {
        stepMs: STEP,
        at: [NOW - STEP, NOW],
        available: [2, 4],
        enqueued: [1, 1],
        completed: [null, null],
      },
    });
  });

  test('is made once a second, however many pages ask', async () => {
    const { world, page } = setUp();
    await Promise.all(Array.from({ length: 50 }, () => page()));
    world.now += 999;
    await page();
    expect(world.asked).toHaveLength(3);
    world.now += 1;
    await Promise.all(Array.from({ length: 50 }, () => page()));
    expect(world.asked).toHaveLength(6);
  });

  test('asks nodes only for new samples, and for all of a node that it does not know', async () => {
    const { world, page } = setUp({ getOverview: () => ({ nodes: [node('a')], unreachable: [] }) });
    await page();
    world.now += STEP;
    world.answers.getOverview = ({ afterUnixMs }) => ({
      nodes: [
        node('a', { history: history(afterUnixMs === 0 ? [1, 2, 7] : [7], NOW + STEP) }),
        node('b', { history: history(afterUnixMs === 0 ? [5, 5, 5] : [5], NOW + STEP) }),
      ],
      unreachable: [],
    });
    const { history: shown } = await page();
    expect(world.asked.filter((asked) => asked.startsWith('getOverview'))).toEqual([
      'getOverview 0',
      `getOverview ${NOW}`,
      'getOverview 0',
    ]);
    expect(shown.available).toEqual([6, 7, 12]);
    expect((await page(`after=${NOW}`)).history).toMatchObject({ at: [NOW + STEP], available: [12] });
  });

  test('does not ask again for what it has while a node is down, and for the gap of one that is back', async () => {
    const { world, page } = setUp();
    await page();
    const of = (name: string, afterUnixMs: number, step: number) =>
      node(name, { history: history(afterUnixMs === 0 ? [1, 2, 3] : [3], NOW + step * STEP) });
    world.answers.getOverview = ({ afterUnixMs }) => ({ nodes: [of('a', afterUnixMs, 1)], unreachable: [] });
    world.now += STEP;
    await page();
    world.answers.getOverview = ({ afterUnixMs }) => ({ nodes: [of('a', afterUnixMs, 2)], unreachable: [] });
    world.now += STEP;
    const { history: shown } = await page();
    // What the other node has told before it was down stays.
    expect(shown.available).toEqual([2, 4, 3, 3]);
    world.answers.getOverview = ({ afterUnixMs }) => ({
      nodes: [of('a', afterUnixMs, 3), of('b', afterUnixMs, 3)],
      unreachable: [],
    });
    world.now += STEP;
    expect((await page()).history.available).toEqual([2, 4, 2, 4, 6]);
    expect(world.asked.filter((asked) => asked.startsWith('getOverview'))).toEqual([
      'getOverview 0',
      `getOverview ${NOW}`,
      `getOverview ${NOW + STEP}`,
      `getOverview ${NOW + 2 * STEP}`,
      'getOverview 0',
    ]);
  });

  test('has no sums over a time in which a node that is there before and after took no samples', async () => {
    const { page } = setUp({
      getOverview: () => ({
        nodes: [
          node('a', { history: history([1, 2, 3, 4, 5]) }),
          // One sample is missing, and its last one is not there yet.
          node('b', { history: history([10, -1, 30], NOW - STEP) }),
          // This one was started later.
          node('c', { history: history([100, 200]) }),
        ],
        unreachable: [],
      }),
    });
    expect((await page()).history).toMatchObject({
      at: [NOW - 4 * STEP, NOW - 3 * STEP, NOW - 2 * STEP, NOW - STEP],
      available: [1, 12, null, 134],
    });
  });

  test('has no sums of which a part is missing, unless a node is far behind', async () => {
    const { world, page } = setUp();
    const both = (steps: number): void => {
      world.answers.getOverview = () => ({
        nodes: [node('a', { history: history([7], NOW + steps * STEP) }), node('b', { history: history([1, 2]) })],
        unreachable: [],
      });
      world.now += STEP;
    };
    await page();
    both(1);
    expect((await page()).history).toMatchObject({ at: [NOW - STEP, NOW], available: [2, 4] });
    both(4);
    expect((await page()).history.at.at(-1)).toBe(NOW + STEP);
    world.answers.getOverview = () => ({
      nodes: [node('a', { history: history([7], NOW + 4 * STEP) })],
      unreachable: [],
    });
    world.now += STEP;
    expect((await page()).history.at.at(-1)).toBe(NOW + 4 * STEP);
  });

  test('has the samples of the others while the clock of a node is hours ahead, and its own once it is right', async () => {
    const ahead = 3 * 3_600_000;
    const { world, page } = setUp({
      getOverview: () => ({
        nodes: [node('a'), node('b', { history: history([9, 9], NOW + ahead) })],
        unreachable: [],
      }),
    });
    expect((await page()).history).toMatchObject({ at: [NOW - STEP, NOW], available: [1, 2] });
    world.now += STEP;
    world.answers.getOverview = ({ afterUnixMs }) => ({
      nodes: ['a', 'b'].map((name) =>
        node(name, { history: history(afterUnixMs >= NOW + STEP ? [] : [1, 2, 3], NOW + STEP) }),
      ),
      unreachable: [],
    });
    expect((await page()).history).toMatchObject({ at: [NOW - STEP, NOW, NOW + STEP], available: [2, 4, 6] });
  });

  test('asks a node for its samples again after its clock was set back', async () => {
    const { world, page } = setUp({
      getOverview: () => ({ nodes: [node('a', { history: history([9], NOW + 3_600_000) })], unreachable: [] }),
    });
    await page();
    world.answers.getOverview = ({ afterUnixMs }) => ({
      nodes: [node('a', { history: history(afterUnixMs > NOW ? [] : [1, 2], NOW) })],
      unreachable: [],
    });
    for (let times = 0; times < 2; times++) {
      world.now += STEP;
      await page();
    }
    expect((await page()).history).toMatchObject({ at: [NOW - STEP, NOW], available: [1, 2] });
  });

  test('of a node without a cluster has no members', async () => {
    const lone = node('', { nodeId: '', name: '' });
    const { page } = setUp({
      getOverview: () => ({ nodes: [lone], unreachable: [] }),
      listMembers: refuse('NO_CLUSTER'),
      listPartitions: refuse('NO_CLUSTER'),
    });
    expect(await page()).toMatchObject({
      members: [],
      partitions: { total: null },
      totals: { queues: 1 },
      attention: [],
    });
  });

  test('is refused if nothing is known, and by a parameter that is not one', async () => {
    const { overview } = setUp({
      getOverview: refuse('HOLDER_UNREACHABLE'),
      listMembers: refuse('HOLDER_UNREACHABLE'),
      listPartitions: refuse('HOLDER_UNREACHABLE'),
    });
    await expect(overview.reply(new URLSearchParams(), unlimitedAccess)).rejects.toMatchObject({
      reason: 'HOLDER_UNREACHABLE',
    });
    expect((await overview.reply(new URLSearchParams('before=1'), unlimitedAccess)).status).toBe(400);
    await expect(overview.reply(new URLSearchParams('after=x'), unlimitedAccess)).rejects.toMatchObject({
      reason: 'INVALID_ARGUMENT',
    });
  });
});

describe('what needs attention', () => {
  test('is a member that is down, since gossip said so, whether or not somebody looked then', async () => {
    const { world, overview, page } = setUp({
      getOverview: () => ({
        nodes: [node('a')],
        unreachable: [{ nodeId: 'id-b', name: 'b', address: 'b:7400', problem: 'no answer' }],
      }),
      listMembers: () => ({ clusterId: 'c', partitions: 4, members: [member('a'), member('b', { alive: false })] }),
      listPartitions: () => ({
        partitions: [partition(0, 'a'), partition(1, 'b', { state: PartitionState.PARTITION_STATE_UNREACHABLE })],
        unreachable: ['b'],
      }),
    });
    overview.look();
    world.now += 5_000;
    world.alive.b = false;
    overview.look();
    world.now += 1_800_000;
    const since = NOW + 5_000;
    const shown = await page();
    expect(shown).toMatchObject({
      unreachable: [{ id: 'id-b', name: 'b', address: 'b:7400', reason: 'no answer', since, sinceIsExact: true }],
      partitions: { total: 2, served: 1, unserved: 1 },
      members: [
        { name: 'a', alive: true, sinceIsExact: false },
        { name: 'b', alive: false, since, sinceIsExact: true },
      ],
    });
    expect(shown.attention).toMatchObject([
      { severity: 'critical', kind: 'member-down', subject: 'b', member: 'b', since, sinceIsExact: true },
      { severity: 'critical', kind: 'partition-unserved', since, sinceIsExact: true },
    ]);
  });

  test('is a member that was down already when this program started, at least since then', async () => {
    const { world, page } = setUp({
      listMembers: () => ({ clusterId: 'c', partitions: 4, members: [member('a'), member('b', { alive: false })] }),
    });
    world.alive.b = false;
    expect((await page()).attention).toMatchObject([{ kind: 'member-down', since: NOW, sinceIsExact: false }]);
  });

  test('is a member that lives and does not answer, until it does', async () => {
    const { world, page } = setUp();
    const { getOverview } = world.answers;
    world.answers.getOverview = () => ({
      nodes: [node('a')],
      unreachable: [{ nodeId: 'id-b', name: 'b', address: 'b:7400', problem: 'took too long' }],
    });
    await page();
    world.now += 2_000;
    const { attention } = await page();
    expect(attention).toMatchObject([
      { severity: 'critical', kind: 'member-unreachable', subject: 'b', since: NOW, sinceIsExact: false },
    ]);
    expect(attention[0]?.message).toBe('did not answer: took too long');
    world.answers.getOverview = getOverview;
    world.now += 2_000;
    expect((await page()).attention).toEqual([]);
    world.answers.getOverview = refuse('HOLDER_UNREACHABLE');
    world.now += 2_000;
    // All of them are named, since now.
    expect((await page()).attention).toMatchObject([{ since: NOW + 6_000 }, { since: NOW + 6_000 }]);
  });

  test('comes critical first, and names queues only to callers that may read them', async () => {
    const { page } = setUp({
      getOverview: () => ({
        nodes: [
          node('a', { troubles: [trouble({ queue: 'g#q' }), trouble({ queue: 'h#q', sinceUnixMs: NOW - 9 })] }),
          node('b', {
            troubles: [
              trouble({ kind: 'disk', severity: TroubleSeverity.TROUBLE_SEVERITY_CRITICAL, sinceIsExact: false }),
              trouble({ kind: 'reload' }),
            ],
          }),
        ],
        unreachable: [],
      }),
    });
    const named = ({ attention }: Awaited<ReturnType<typeof page>>) =>
      attention.map(({ kind, subject }) => `${kind} ${subject}`);
    expect(named(await page())).toEqual(['disk b', 'reload b', 'queue-old h#q', 'queue-old g#q']);
    const rules = accessOf({ principals: [{ name: 'p', tokens: [], rights: [{ groups: ['g'], allow: ['read'] }] }] });
    expect(named(await page('', rules.identified('p')))).toEqual(['disk b', 'reload b', 'queue-old g#q']);
  });

  test('is asked for with the rights of a caller, once a second, if nodes leave its queues out for worse ones', async () => {
    const { world, page } = setUp({
      getOverview: ({ afterUnixMs }) => {
        const isForCaller = afterUnixMs > NOW;
        const troubles = [trouble({ queue: isForCaller ? 'g#q' : 'h#q' }), trouble({ kind: 'reload' })];
        return { nodes: [node('a', { troubles, troubledQueues: isForCaller ? 1 : 2 })], unreachable: [] };
      },
    });
    world.askers.push('p');
    const rules = accessOf({ principals: [{ name: 'p', tokens: [], rights: [{ groups: ['g'], allow: ['read'] }] }] });
    const named = ({ attention }: Awaited<ReturnType<typeof page>>) =>
      attention.map(({ kind, subject }) => `${kind} ${subject}`);
    for (let asks = 0; asks < 2; asks++) {
      expect(named(await page('', rules.identified('p')))).toEqual(['reload a', 'queue-old g#q']);
    }
    expect(world.askedBy).toEqual(['p']);
    world.now += 1_000;
    await page('', rules.identified('p'));
    expect(world.askedBy).toEqual(['p', 'p']);
    expect(named(await page())).toEqual(['reload a', 'queue-old h#q']);
    expect(world.askedBy).toEqual(['p', 'p']);
  });

  test('is what is known for all, if nodes do not answer with the rights of a caller', async () => {
    const { world, page } = setUp({
      getOverview: ({ afterUnixMs }) => {
        if (afterUnixMs > NOW) throw new Error('no answer');
        const troubles = [trouble({ queue: 'g#q' }), trouble({ queue: 'h#q' }), trouble({ kind: 'reload' })];
        return { nodes: [node('a', { troubles, troubledQueues: 3 })], unreachable: [] };
      },
    });
    world.askers.push('p');
    const rules = accessOf({ principals: [{ name: 'p', tokens: [], rights: [{ groups: ['g'], allow: ['read'] }] }] });
    const { attention } = await page('', rules.identified('p'));
    expect(attention.map(({ kind, subject }) => `${kind} ${subject}`)).toEqual(['reload a', 'queue-old g#q']);
    expect(world.askedBy).toEqual(['p']);
  });

  test('is a clock that differs by more than a minute', async () => {
    const { world, page } = setUp();
    world.clocks = [
      { nodeId: 'id-b', member: 'b', aheadMs: -61_000 },
      { nodeId: 'id-a', member: 'a', aheadMs: 59_000 },
    ];
    const shown = await page();
    expect(shown.attention).toMatchObject([{ severity: 'warning', kind: 'clock', subject: 'b' }]);
    expect(shown.attention[0]?.message).toContain('61 s behind');
    expect(shown.members).toMatchObject([{ clockDifferenceMs: 59_000 }, { clockDifferenceMs: -61_000 }]);
  });
});

describe('changes', () => {
  const line = (second: number, change: object): string => {
    const time = new Date(NOW + second * 1000).toISOString();
    return JSON.stringify({ time, kind: 'management', action: 'DeleteQueue', target: 'g#q', result: 'ok', ...change });
  };
  const changing = () =>
    setUp({
      getOverview: ({ includeChanges }) => ({
        nodes: [
          node('a', {
            changes: includeChanges ? [line(1, { address: 'x:1' }), line(3, { action: 'PauseQueues' })] : [],
          }),
          node('b', {
            changes: includeChanges
              ? [line(0, { kind: 'membership', action: 'left', target: 'c' }), line(2, { address: 'x:1', via: 'a:9' })]
              : [],
          }),
        ],
        unreachable: [],
      }),
    });

  test('come from all nodes, the newest first, and once although two nodes have recorded one', async () => {
    const { page } = changing();
    expect((await page('changes=1')).changes).toEqual([
      { at: NOW + 3_000, node: 'a', kind: 'management', action: 'PauseQueues', target: 'g#q', result: 'ok' },
      {
        at: NOW + 1_000,
        node: 'a',
        kind: 'management',
        action: 'DeleteQueue',
        target: 'g#q',
        result: 'ok',
        address: 'x:1',
      },
      { at: NOW, node: 'b', kind: 'membership', action: 'left', target: 'c', result: 'ok' },
    ]);
    expect(await page()).not.toHaveProperty('changes');
  });

  test('are those of a proxy, too: the node that it has asked may have left since', async () => {
    const { world, page } = changing();
    world.changes = [line(4, { action: 'DrainMember', target: 'c', address: 'y:1' }), line(2, { address: 'x:1' })];
    const { changes } = (await page('changes=1')) as unknown as { readonly changes: { readonly action: string }[] };
    expect(changes.map(({ action }) => action)).toEqual([
      'DrainMember',
      'PauseQueues',
      'DeleteQueue',
      'DeleteQueue',
      'left',
    ]);
  });

  test('are asked for once a second', async () => {
    const { world, page } = changing();
    await Promise.all(Array.from({ length: 20 }, () => page('changes=1')));
    expect(world.asked).toHaveLength(4);
  });

  test('are for callers that may manage the cluster', async () => {
    const { world, page } = changing();
    const rights = [{ groups: ['*'], allow: ['read' as const] }];
    const reader = { name: 'reader', tokens: [], rights };
    const operator = { name: 'operator', tokens: [], rights: [{ allow: ['manage-cluster' as const] }] };
    const rules = accessOf({ principals: [reader, operator] });
    expect(await page('changes=1', rules.identified('reader'))).not.toHaveProperty('changes');
    expect(world.asked).toHaveLength(3);
    expect((await page('changes=1', rules.identified('operator'))).changes).toHaveLength(3);
  });
});

test('a cluster has its moves with their progress, and no members that have left', async () => {
  const { page } = setUp({
    listMembers: () => ({
      clusterId: 'c',
      partitions: 4,
      members: [
        member('a'),
        member('p', { role: MemberRole.MEMBER_ROLE_PROXY, state: MemberState.MEMBER_STATE_UNSPECIFIED }),
        member('z', { state: MemberState.MEMBER_STATE_LEFT }),
      ],
    }),
    listPartitions: () => ({
      partitions: [
        partition(3, 'a', { state: PartitionState.PARTITION_STATE_MOVING, movingTo: 'b', movedRows: 7, movedBytes: 9 }),
      ],
      unreachable: [],
    }),
  });
  const shown = await page();
  expect(shown.partitions).toMatchObject({ served: 1, moving: [{ id: 3, from: 'a', to: 'b', rows: 7, bytes: 9 }] });
  expect(shown.members).toMatchObject([
    { name: 'a', role: 'node' },
    { name: 'p', role: 'proxy', state: 'connected' },
  ]);
});
