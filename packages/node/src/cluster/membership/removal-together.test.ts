import type { PartitionId } from '@taskmaster/server/domain';
import { describe, expect, test } from 'vitest';
import {
  clusterOf,
  cutOff,
  cutOffAtTake,
  DEATH_MS,
  expectOneHolderEach,
  fill,
  GROUPS,
  groupsOf,
  idsHeldBy,
  partitionWithTasks,
  pidsIn,
  removeMembers,
  reportOn,
  requestRemoval,
} from '../../testing/cluster-fixtures.ts';
import type { SimCluster } from '../../testing/sim-cluster.ts';

/** Longer than the claim of lost partitions takes. */
const CLAIM_MS = 10_000;
/** A node that restarted looks this long for members that it does not know. */
const RESTART_MS = 10_000;

async function lose(cluster: SimCluster, ...names: string[]): Promise<void> {
  for (const name of names) await cluster.run(cluster.node(name).lose());
}

async function start(cluster: SimCluster, ...names: string[]): Promise<void> {
  for (const name of names) await cluster.run(cluster.node(name).start());
}

/** A queue in a group that this node holds. */
function queueAt(cluster: SimCluster, name: string): string {
  const [group] = groupsOf(cluster, cluster.node(name));
  if (group === undefined) throw new Error(`node ${name} holds nothing`);
  return `${group}#q`;
}

const stateOf = (cluster: SimCluster, through: string, name: string) =>
  cluster.node(through).agent.members.get(`id-${name}`)?.state;

describe('members that are lost together', () => {
  test('two of three: the remaining one waits, and serves after they are removed', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await fill(cluster, '1');
    const kept = groupsOf(cluster, cluster.node('b'));
    const queue = queueAt(cluster, 'b');
    await lose(cluster, 'a', 'b', 'c');
    await start(cluster, 'b');
    const b = cluster.node('b');
    await cluster.pass(60_000);
    await expect(cluster.run(b.h.enqueue(queue, ['2']))).rejects.toMatchObject({ reason: 'STARTING' });
    await expect(removeMembers(cluster, 'b', 'c')).rejects.toMatchObject({ reason: 'HOLDER_UNREACHABLE' });
    await expect(removeMembers(cluster, 'b', 'a')).rejects.toMatchObject({ reason: 'HOLDER_UNREACHABLE' });

    expect(await removeMembers(cluster, 'b', 'a', 'c')).toMatchObject({ removed: true });
    await cluster.run(b.h.enqueue(queue, ['2']));
    await cluster.pass(CLAIM_MS);
    expect(cluster.shares()).toEqual({ b: cluster.partitions });
    const first = queue.split('#')[0];
    for (const group of GROUPS) {
      const expected = kept.includes(group) ? ['1'] : [];
      expect(await pidsIn(cluster, group)).toEqual(group === first ? ['1', '2'] : expected);
    }
  });

  test('are reported as one loss that names the member of each partition', async () => {
    const cluster = await clusterOf(['a', 'b', 'c', 'd']);
    await fill(cluster, '1');
    await cluster.pass(15_000);
    const held = new Map(['b', 'd'].flatMap((name) => idsHeldBy(cluster.node(name)).map((id) => [id, name] as const)));
    await lose(cluster, 'b', 'd');
    await cluster.pass(DEATH_MS);
    for (const through of ['a', 'c']) {
      const { removed, lost } = await reportOn(cluster, through, 'd', 'b');
      expect(removed).toBe(false);
      expect(lost.map(({ id, member }) => [id, member])).toEqual([...held].sort(([a], [b]) => a - b));
    }
    expect([stateOf(cluster, 'a', 'b'), stateOf(cluster, 'a', 'd')]).toEqual(['active', 'active']);
    await removeMembers(cluster, 'c', 'd', 'b');
    await cluster.pass(30_000);
    expectOneHolderEach(cluster);
    for (const through of ['a', 'c']) {
      for (const name of ['b', 'd']) {
        const record = cluster.node(through).agent.members.get(`id-${name}`);
        expect(record).toMatchObject({ state: 'left', removedBy: 'id-a' });
      }
    }
  });

  test('a node that has just restarted waits first for members that joined while it was down', async () => {
    const cluster = await clusterOf(['a', 'b']);
    await fill(cluster, '1');
    await lose(cluster, 'b');
    await cluster.run(cluster.add('c').start());
    await cluster.pass(30_000);
    // Only a knows that c is a member.
    const [kept = ''] = groupsOf(cluster, cluster.node('c'));
    await lose(cluster, 'a');
    cutOff(cluster, 'c');
    await start(cluster, 'b');
    await expect(removeMembers(cluster, 'b', 'a')).rejects.toMatchObject({ reason: 'STARTING', retryDelayMs: 1_000 });
    expect(stateOf(cluster, 'b', 'a')).toBe('active');
    cluster.heal();
    await cluster.pass(8_000);
    expect(await removeMembers(cluster, 'b', 'a')).toMatchObject({ removed: true });
    await cluster.pass(CLAIM_MS);
    expect(groupsOf(cluster, cluster.node('c'))).toContain(kept);
    expect(await pidsIn(cluster, kept)).toEqual(['1']);
    expectOneHolderEach(cluster);
  });

  test('may have held partitions that no member remembers: then the report names no member for them', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await lose(cluster, 'a', 'b', 'c');
    await start(cluster, 'c');
    await cluster.pass(RESTART_MS);
    const own = idsHeldBy(cluster.node('c'));
    const { lost } = await removeMembers(cluster, 'c', 'a', 'b');
    expect(lost).toHaveLength(cluster.partitions - own.length);
    for (const one of lost) expect(one).toMatchObject({ counted: false, member: '' });
    await cluster.pass(CLAIM_MS);
    expectOneHolderEach(cluster);
  });

  test('are not known to have taken a partition: its holder takes it back', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await fill(cluster, '1');
    const [a, b] = [cluster.node('a'), cluster.node('b')];
    const held = partitionWithTasks(a);
    cutOffAtTake(cluster, 'a');
    a.send(held.id, b).catch(() => {});
    // Until node b has stopped its attempts to hand it back to the node that the ring assigns.
    await cluster.pass(60_000);
    expect(b.partitions.holding(held.id)?.kind).toBe('serving');
    cluster.network.onArrival = undefined;
    // It moves on to node c, and no remaining member hears of that.
    await cluster.run(b.send(held.id, cluster.node('c')));
    await lose(cluster, 'b', 'c');
    await cluster.pass(DEATH_MS);
    const { lost, takenBackBy } = await removeMembers(cluster, 'a', 'b', 'c');
    expect(takenBackBy).toEqual(['a']);
    expect(lost.map(({ id }) => id)).not.toContain(held.id);
    expect(a.partitions.holding(held.id)?.kind).toBe('serving');
    // Later than any epoch that a proxy could have heard of from them.
    expect(a.partitions.holding(held.id)?.epoch).toBeGreaterThan(held.epoch + 2);
    await cluster.pass(CLAIM_MS);
    expectOneHolderEach(cluster);
  });

  test('may have handed a partition back and forth unseen: it restarts at a later epoch than theirs', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const [b, c] = [cluster.node('b'), cluster.node('c')];
    const [id] = idsHeldBy(b);
    if (id === undefined) throw new Error('node b holds nothing');
    cutOff(cluster, 'a');
    for (let round = 0; round < 3; round++) {
      if (c.partitions.holds(id)) await cluster.run(c.send(id, b));
      if (b.partitions.holds(id)) await cluster.run(b.send(id, c));
    }
    const { epoch = 0 } = c.partitions.holding(id) ?? b.partitions.holding(id) ?? {};
    expect(epoch).toBeGreaterThan((cluster.node('a').agent.view.get(id)?.epoch ?? 0) + 2);
    await lose(cluster, 'b', 'c');
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'b', 'c');
    await cluster.pass(CLAIM_MS);
    expect(cluster.node('a').partitions.holding(id)?.epoch).toBeGreaterThan(epoch);
  });
});

describe('the removal of one or several members is refused', () => {
  test('while one of them is alive, even if gossip believes that it is dead: then none is removed', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await lose(cluster, 'b');
    await cluster.pass(DEATH_MS);
    const requests = [['c'], ['b', 'c'], ['c', 'b']];
    for (const names of requests) {
      const refused = { reason: 'MEMBER_ALIVE', metadata: { member: 'c' } };
      for (const through of ['a', 'c'])
        await expect(removeMembers(cluster, through, ...names)).rejects.toMatchObject(refused);
    }
    cluster.node('a').membership.peers = () => [];
    for (const names of requests)
      await expect(removeMembers(cluster, 'a', ...names)).rejects.toMatchObject({ reason: 'MEMBER_ALIVE' });
    expect(stateOf(cluster, 'a', 'c')).toBe('active');
    expect(stateOf(cluster, 'a', 'b')).toBe('active');
  });

  test('while a member that is not named does not answer', async () => {
    const cluster = await clusterOf(['a', 'b', 'c', 'd']);
    await lose(cluster, 'b', 'c', 'd');
    await cluster.pass(DEATH_MS);
    const refused = { reason: 'HOLDER_UNREACHABLE', metadata: { members: 'd' } };
    for (const ask of [reportOn, removeMembers]) {
      await expect(ask(cluster, 'a', 'b', 'c')).rejects.toMatchObject(refused);
    }
    expect(stateOf(cluster, 'a', 'b')).toBe('active');
    await start(cluster, 'd');
    await cluster.pass(5_000);
    expect(await removeMembers(cluster, 'd', 'b', 'c')).toMatchObject({ removed: true });
  });

  test('if one is unknown, has left or is removed already, or if no member would remain', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await cluster.run(cluster.node('c').agent.drain());
    await lose(cluster, 'b', 'c');
    await cluster.pass(DEATH_MS);
    for (const names of [['x'], ['b', 'x']])
      await expect(removeMembers(cluster, 'a', ...names)).rejects.toMatchObject({ reason: 'UNKNOWN_MEMBER' });
    await expect(removeMembers(cluster, 'a', 'b', 'c')).rejects.toMatchObject({ reason: 'MEMBER_LEFT' });
    await expect(removeMembers(cluster, 'a', 'b', 'a')).rejects.toMatchObject({ reason: 'MEMBER_ALIVE' });
    expect(stateOf(cluster, 'a', 'b')).toBe('active');
    expect(await removeMembers(cluster, 'a', 'b', 'b')).toMatchObject({ removed: true });
    await expect(removeMembers(cluster, 'a', 'b')).rejects.toMatchObject({ reason: 'MEMBER_LEFT' });
    await expect(removeMembers(cluster, 'a', 'a')).rejects.toMatchObject({ reason: 'MEMBER_ALIVE' });
  });
});

describe('a node that removes several members and crashes', () => {
  test('between the decision and the claims continues after its restart', async () => {
    const cluster = await clusterOf(['a', 'b', 'c', 'd']);
    await fill(cluster, '1');
    const orphans = ['c', 'd'].flatMap((name) => idsHeldBy(cluster.node(name)));
    await lose(cluster, 'c', 'd');
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'c', 'd');
    await lose(cluster, 'a');
    await cluster.pass(60_000);
    for (const id of orphans) expect(cluster.serving(id)).toEqual([]);
    await start(cluster, 'a');
    await cluster.pass(60_000);
    expectOneHolderEach(cluster);
  });

  test('just before others hear of the removal continues alone after its restart', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await lose(cluster, 'b', 'c');
    await cluster.pass(DEATH_MS);
    requestRemoval(cluster, 'a', ['b', 'c'], { acceptLoss: true }).catch(() => {});
    while (stateOf(cluster, 'a', 'b') !== 'left') await cluster.pass(1);
    await lose(cluster, 'a');
    await start(cluster, 'a');
    await cluster.pass(CLAIM_MS);
    expect(cluster.shares()).toEqual({ a: cluster.partitions });
  });

  test.each([1, 2, 3])('at durable step %i has removed all or none', async (step) => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await lose(cluster, 'b', 'c');
    await cluster.pass(DEATH_MS);
    const { disk } = cluster.node('a').h;
    const last = disk.steps + step;
    disk.onStep = ({ number }) => {
      if (number === last) void cluster.node('a').lose();
    };
    requestRemoval(cluster, 'a', ['b', 'c'], { acceptLoss: true }).catch(() => {});
    await cluster.pass(5_000);
    disk.onStep = undefined;
    expect(cluster.up).toEqual([]);
    await start(cluster, 'a');
    const states = ['b', 'c'].map((name) => stateOf(cluster, 'a', name));
    expect([
      ['active', 'active'],
      ['left', 'left'],
    ]).toContainEqual(states);
  });
});

describe('members that were removed together and restart together', () => {
  /** Nodes b and c are removed and restart. Resolves when they have exchanged knowledge. */
  async function comeBack(cluster: SimCluster): Promise<void> {
    await cluster.run(Promise.all(['b', 'c'].map((name) => cluster.node(name).start())));
    await cluster.pass(3_000);
  }

  async function expectNothingCommitted(cluster: SimCluster, queues: Readonly<Record<string, string>>): Promise<void> {
    for (const [name, queue] of Object.entries(queues)) {
      const refused = expect.stringMatching(/STARTING|MEMBER_LEFT|NOT_HOLDER/);
      const enqueued = cluster.run(cluster.node(name).h.enqueue(queue, ['2']));
      await expect(enqueued).rejects.toMatchObject({ reason: refused });
      expect(cluster.node(name).agent.mayCommit).toBe(false);
    }
  }

  test('do not confirm each other as members', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const queues = { b: queueAt(cluster, 'b'), c: queueAt(cluster, 'c') };
    await lose(cluster, 'b', 'c');
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'b', 'c');
    await cluster.pass(CLAIM_MS);
    // For some time they reach only each other.
    for (const name of ['b', 'c']) cutOff(cluster, name, ['a']);
    await comeBack(cluster);
    await expectNothingCommitted(cluster, queues);
    cluster.heal();
    await cluster.pass(3_000);
    for (const name of ['b', 'c']) expect(stateOf(cluster, name, name)).toBe('left');
    await expectNothingCommitted(cluster, queues);
    expectOneHolderEach(cluster);
  });

  test('do not confirm each other later either, unless they are more than half of the members they know', async () => {
    const cluster = await clusterOf(['a', 'b', 'c', 'd']);
    const queues = { b: queueAt(cluster, 'b'), c: queueAt(cluster, 'c') };
    await lose(cluster, 'b', 'c');
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'b', 'c');
    await cluster.pass(CLAIM_MS);
    for (const name of ['b', 'c']) cutOff(cluster, name, ['a', 'd']);
    await comeBack(cluster);
    await cluster.pass(120_000);
    await expectNothingCommitted(cluster, queues);
    cluster.heal();
    await cluster.pass(5_000);
    for (const name of ['b', 'c']) expect(stateOf(cluster, name, name)).toBe('left');
    expectOneHolderEach(cluster);
  });

  test('serve after ten seconds if they are more than half, until they learn of the removal: what they acknowledged is lost', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const queue = queueAt(cluster, 'b');
    await lose(cluster, 'b', 'c');
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'b', 'c');
    await cluster.pass(CLAIM_MS);
    for (const name of ['b', 'c']) cutOff(cluster, name, ['a']);
    await comeBack(cluster);
    await expectNothingCommitted(cluster, { b: queue });
    await cluster.pass(DEATH_MS);
    await cluster.run(cluster.node('b').h.enqueue(queue, ['2']));
    cluster.heal();
    // They find each other again within a second.
    await cluster.pass(1_000);
    await expectNothingCommitted(cluster, { b: queue });
    expectOneHolderEach(cluster);
  });

  test('do not confirm each other if they were removed one after the other, the second before it had heard of the first removal', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const queues = { b: queueAt(cluster, 'b'), c: queueAt(cluster, 'c') };
    await lose(cluster, 'c');
    await cluster.pass(DEATH_MS);
    cluster.network.onArrival = ({ from, what, way }) => {
      // Node b has answered; it is lost before it hears of the decision.
      if (from === 'b' && what === 'inventory' && way === 'answer') cutOff(cluster, 'b', ['a']);
    };
    await removeMembers(cluster, 'a', 'c');
    cluster.network.onArrival = undefined;
    expect(stateOf(cluster, 'b', 'c')).toBe('active');
    await lose(cluster, 'b');
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'b');
    await cluster.pass(CLAIM_MS);
    cutOff(cluster, 'c', ['a']);
    await comeBack(cluster);
    await expectNothingCommitted(cluster, queues);
    cluster.heal();
    await cluster.pass(3_000);
    await expectNothingCommitted(cluster, queues);
    expectOneHolderEach(cluster);
  });

  test('do not confirm each other after a pause', async () => {
    const cluster = await clusterOf(['a', 'b', 'c'], { latencyMs: 12 });
    const queues = { b: queueAt(cluster, 'b'), c: queueAt(cluster, 'c') };
    const stood = ['b', 'c'].map((name) => cluster.node(name));
    for (const { h } of stood) h.clock.standStill();
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'b', 'c');
    await cluster.pass(CLAIM_MS);
    for (const { h } of stood) h.clock.goOn();
    for (let passed = 0; passed < 200; passed++) {
      for (let id = 0; id < cluster.partitions; id++) {
        const committing = cluster.serving(id as PartitionId).filter((name) => cluster.node(name).agent.mayCommit);
        expect(committing).toEqual(['a']);
      }
      await cluster.pass(5);
    }
    await expectNothingCommitted(cluster, queues);
  });
});

describe('a removal may wait', () => {
  test.each(['a', 'b'])('until the lost partitions are served again, asked at %s', async (through) => {
    const cluster = await clusterOf(['a', 'b', 'c', 'd']);
    await lose(cluster, 'c', 'd');
    await cluster.pass(DEATH_MS);
    const before = cluster.time.now();
    const removal = requestRemoval(cluster, through, ['c', 'd'], { acceptLoss: true, waitMs: 10_000 });
    const { removed, claimed, lost } = await cluster.run(removal);
    expect({ removed, claimed }).toEqual({ removed: true, claimed: true });
    expect(cluster.time.now() - before).toBeLessThan(8_000);
    for (const { id } of lost) expect(cluster.serving(id as PartitionId)).toHaveLength(1);
    const { agent } = cluster.node(through);
    for (const { id } of lost) {
      expect(['id-a', 'id-b']).toContain(agent.view.get(id as PartitionId)?.nodeId);
    }
  });

  test('but not forever: a member that must answer may have died meanwhile', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await lose(cluster, 'c');
    await cluster.pass(DEATH_MS);
    const before = cluster.time.now();
    const removal = requestRemoval(cluster, 'a', ['c'], { acceptLoss: true, waitMs: 10_000 });
    while (stateOf(cluster, 'b', 'c') !== 'left') await cluster.pass(1);
    await lose(cluster, 'b');
    expect(await cluster.run(removal)).toMatchObject({ removed: true, claimed: false });
    expect(cluster.time.now() - before).toBeLessThan(15_000);
  });

  test('but not if it only reports the loss', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await lose(cluster, 'c');
    await cluster.pass(DEATH_MS);
    const { claimed } = await cluster.run(requestRemoval(cluster, 'a', ['c'], { acceptLoss: false, waitMs: 10_000 }));
    expect(claimed).toBe(false);
  });
});
