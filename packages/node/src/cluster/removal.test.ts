import { describe, expect, test } from 'vitest';
import type { PartitionId } from '../domain/ids.ts';
import { administrationOf, clusterOf, cutOff, fill, GROUPS, groupsOf, idsHeldBy } from '../testing/cluster-fixtures.ts';
import { pidsOf } from '../testing/engine-harness.ts';
import type { SimCluster, SimNode } from '../testing/sim-cluster.ts';

/** Longer than gossip needs to declare a node dead. */
const DEATH_MS = 10_000;
/** Longer than it takes to begin partitions anew. */
const CLAIM_MS = 10_000;

const remove = (cluster: SimCluster, through: string, name: string, acceptLoss: boolean) =>
  cluster.run(administrationOf(cluster, through).removeMember({ name, acceptLoss }));

const pidsIn = async (cluster: SimCluster, group: string): Promise<string[]> => {
  const holder = cluster.holderOf(group);
  if (!holder) throw new Error(`nobody serves ${group}`);
  return pidsOf(await cluster.run(holder.h.lease(`${group}#q`, { max: 9, for: 1 })));
};

async function expectOneHolderEach(cluster: SimCluster): Promise<void> {
  for (let id = 0; id < cluster.partitions; id++) {
    const holders = cluster.serving(id as PartitionId).filter((name) => {
      const { agent } = cluster.node(name);
      return agent.self?.state !== 'left';
    });
    expect(holders, `holders of ${id}`).toHaveLength(1);
  }
}

describe('a member that is given up', () => {
  test('is first only reported on: what would be lost, and how much it was', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await fill(cluster, '1');
    await cluster.pass(15_000);
    const ids = idsHeldBy(cluster.node('b'));
    const tasks = groupsOf(cluster, cluster.node('b')).length;
    await cluster.run(cluster.node('b').lose());
    await cluster.pass(DEATH_MS);
    const report = await remove(cluster, 'c', 'b', false);
    expect(report).toMatchObject({ removed: false, takenBackBy: [] });
    expect(report.lost.map(({ id }) => id)).toEqual(ids);
    expect(report.lost.every(({ counted }) => counted)).toBe(true);
    expect(report.lost.reduce((sum, lost) => sum + lost.tasks, 0)).toBe(tasks);
    expect(cluster.node('a').agent.members.get('id-b')?.state).toBe('active');
    expect(cluster.node('c').agent.members.get('id-b')?.state).toBe('active');
  });

  test.each(['a', 'c'])(
    'is given up through any node, here %s: its partitions begin anew, the rest stays',
    async (through) => {
      const cluster = await clusterOf(['a', 'b', 'c']);
      await fill(cluster, '1');
      const lostGroups = groupsOf(cluster, cluster.node('b'));
      expect(lostGroups.length).toBeGreaterThan(0);
      await cluster.run(cluster.node('b').lose());
      await cluster.pass(DEATH_MS);
      expect(await remove(cluster, through, 'b', true)).toMatchObject({ removed: true });
      await cluster.pass(30_000);
      await expectOneHolderEach(cluster);
      for (const group of GROUPS) expect(await pidsIn(cluster, group)).toEqual(lostGroups.includes(group) ? [] : ['1']);
      await fill(cluster, '2');
      for (const group of lostGroups) expect(await pidsIn(cluster, group)).toEqual(['2']);
      for (const { agent } of cluster.up) {
        expect(agent.members.get('id-b')).toMatchObject({ state: 'left', removedBy: 'id-a' });
        expect([...agent.view.entries()].map(([id, { nodeId }]) => [id, nodeId])).toEqual([...agent.desired.entries()]);
      }
    },
  );

  test('is given up by the next lowest when it was the lowest itself', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await cluster.run(cluster.node('a').lose());
    await cluster.pass(DEATH_MS);
    expect(await remove(cluster, 'c', 'a', true)).toMatchObject({ removed: true });
    expect(cluster.node('c').agent.members.get('id-a')).toMatchObject({ removedBy: 'id-b' });
    await cluster.pass(30_000);
    await expectOneHolderEach(cluster);
  });

  test('learns of it when it comes back, and commits nothing', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await fill(cluster, '1');
    const b = cluster.node('b');
    const [group = ''] = groupsOf(cluster, b);
    await cluster.run(b.lose());
    await cluster.pass(DEATH_MS);
    await remove(cluster, 'a', 'b', true);
    await cluster.pass(30_000);
    await cluster.run(b.start());
    // Its own disk says that it holds the partition, until it has heard of the others.
    await expect(cluster.run(b.h.enqueue(`${group}#q`, ['2']))).rejects.toMatchObject({ name: 'Refusal' });
    await cluster.pass(30_000);
    expect(b.agent.self).toMatchObject({ state: 'left', removedBy: 'id-a' });
    await expect(cluster.run(b.h.enqueue(`${group}#q`, ['3']))).rejects.toMatchObject({ name: 'Refusal' });
    expect(await pidsIn(cluster, group)).toEqual([]);
    await expectOneHolderEach(cluster);
  });

  test('was told to take a partition, and never said that it did: then nothing of that is lost', async () => {
    const cluster = await clusterOf(['a', 'b']);
    await fill(cluster, '1');
    const [a, b] = [cluster.node('a'), cluster.node('b')];
    const held = a.partitions.held().filter(({ tasks }) => tasks > 0)[0];
    if (!held) throw new Error('node a holds nothing');
    cluster.network.onArrival = ({ what, way }) => {
      // It takes the partition, and nobody hears of it any more.
      if (what === 'takePartition' && way === 'request') cutOff(cluster, 'b');
    };
    a.send(held.id, b).catch(() => {});
    await cluster.pass(5_000);
    expect(b.partitions.holding(held.id)?.kind).toBe('serving');
    await cluster.run(b.lose());
    await cluster.pass(DEATH_MS);
    expect(a.partitions.holding(held.id)?.kind).toBe('handing-over');
    const report = await remove(cluster, 'a', 'b', false);
    expect(report.takenBackBy).toEqual(['a']);
    expect(report.lost.map((lost) => lost.id)).not.toContain(held.id);
    await remove(cluster, 'a', 'b', true);
    await cluster.pass(CLAIM_MS);
    expect(a.partitions.holding(held.id)).toMatchObject({ kind: 'serving', epoch: held.epoch + 2 });
    expect(a.partitions.held().find((one) => one.id === held.id)?.tasks).toBe(held.tasks);
    await expectOneHolderEach(cluster);
  });

  test('gets nothing any more, though it has just been sent something', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await fill(cluster, '1');
    const [a, b] = [cluster.node('a'), cluster.node('b')];
    const held = a.partitions.held().filter(({ tasks }) => tasks > 0)[0];
    if (!held) throw new Error('node a holds nothing');
    let stood = false;
    cluster.network.onArrival = ({ from, what, way }) => {
      if (stood || from !== 'a' || what !== 'sendRows' || way !== 'request') return;
      stood = true;
      b.h.clock.standStill();
    };
    a.send(held.id, b).catch(() => {});
    await cluster.pass(DEATH_MS);
    await remove(cluster, 'a', 'b', true);
    // It answers before it has heard that it was given up.
    b.h.clock.goOn();
    await cluster.pass(100);
    expect(a.partitions.holding(held.id)).toMatchObject({ kind: 'serving', epoch: held.epoch });
    await cluster.pass(30_000);
    await expectOneHolderEach(cluster);
    for (const { agent, partitions } of cluster.up.filter((node) => node !== b)) {
      const { epoch = 0, tasks } = partitions.held().find(({ id }) => id === held.id) ?? {};
      if (epoch > 0) expect({ agent: agent.nodeId, tasks }).toEqual({ agent: agent.nodeId, tasks: held.tasks });
    }
  });

  test('leaves nothing behind that nobody knows of, though all others have forgotten what it held', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const held = idsHeldBy(cluster.node('a'));
    for (const name of ['a', 'b', 'c']) await cluster.run(cluster.node(name).lose());
    for (const name of ['b', 'c']) await cluster.run(cluster.node(name).start());
    await cluster.pass(DEATH_MS);
    const report = await remove(cluster, 'c', 'a', false);
    expect(report.lost.map(({ id }) => id)).toEqual(held);
    expect(report.lost.every(({ counted }) => counted)).toBe(false);
    await remove(cluster, 'c', 'a', true);
    await cluster.pass(30_000);
    await expectOneHolderEach(cluster);
    // So it stays when they forget once more.
    for (const name of ['b', 'c']) await cluster.run(cluster.node(name).lose());
    for (const name of ['b', 'c']) await cluster.run(cluster.node(name).start());
    await fill(cluster, '1');
    await cluster.pass(30_000);
    for (const group of GROUPS) expect(await pidsIn(cluster, group)).toEqual(['1']);
  });

  test('leaves nothing behind that it took over from a member that has left, though nobody remembers', async () => {
    const cluster = await clusterOf(['a', 'b', 'c', 'd']);
    const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((name) => cluster.node(name)) as [SimNode, SimNode, SimNode, SimNode];
    const before = idsHeldBy(c);
    // One does not see it happen; the one that does forgets where partitions are when it is started again.
    cutOff(cluster, 'a');
    for (const id of before) await cluster.run(c.send(id, b));
    await cluster.run(c.agent.drain());
    const ids = before.filter((id) => b.partitions.holds(id));
    expect(ids.length).toBeGreaterThan(0);
    for (const node of [c, b, d]) await cluster.run(node.lose());
    cluster.cut.clear();
    await cluster.run(d.start());
    await cluster.pass(20_000);
    expect(a.agent.members.get('id-c')?.state).toBe('left');
    for (const id of ids) expect(a.agent.view.get(id)?.nodeId).toBe('id-c');

    const { removed, lost } = await cluster.run(
      administrationOf(cluster, 'a').removeMember({ name: 'b', acceptLoss: true }),
    );
    expect(removed).toBe(true);
    expect(lost.map(({ id }) => id)).toEqual(expect.arrayContaining(ids));
    await cluster.pass(60_000);
    for (let id = 0; id < cluster.partitions; id++) expect(cluster.serving(id as PartitionId)).toHaveLength(1);
  });

  test('is believed nothing any more, and told why', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const held = idsHeldBy(cluster.node('b'))[0] ?? (0 as PartitionId);
    await cluster.run(cluster.node('b').lose());
    await cluster.pass(DEATH_MS);
    await remove(cluster, 'a', 'b', true);
    await cluster.pass(30_000);
    const c = cluster.node('c');
    const before = c.agent.view.get(held);
    const claimed = { partition: held, nodeId: 'id-b', epoch: 99, queues: 0, tasks: 0, countedMs: 0 };
    const knowledge = { members: [], holders: [claimed] };
    const { handlers } = c;
    if (!handlers) throw new Error('node c is down');
    const answer = await cluster.run(handlers.exchange({ clusterId: 'cluster-1', from: 'id-b', knowledge }));
    expect(c.agent.view.get(held)).toEqual(before);
    expect(answer.knowledge?.members).toContainEqual(expect.objectContaining({ nodeId: 'id-b', removedBy: 'id-a' }));
    const elsewhere = idsHeldBy(cluster.node('a'))[0] ?? 0;
    const offer = {
      partition: elsewhere,
      epoch: 99,
      holder: 'id-b',
      target: 'id-c',
      nowMs: 0,
      ticket: 0,
      nextQueueId: 1,
    };
    await expect(cluster.run(handlers.offerPartition(offer))).rejects.toMatchObject({ reason: 'MEMBER_LEFT' });
  });

  test('and went on just before others knew is told, before anything of it is claimed', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await fill(cluster, '1');
    const [a, b] = [cluster.node('a'), cluster.node('b')];
    const [group = ''] = groupsOf(cluster, b);
    const orphans = idsHeldBy(b);
    b.h.clock.standStill();
    cutOff(cluster, 'a', ['b']);
    await cluster.pass(DEATH_MS);
    // Nor does gossip tell it.
    Object.assign(cluster.gossip, { reach: () => ({ drop: true, delayMs: 1 }) });
    const said = new Set<string>();
    cluster.network.onArrival = ({ from, to, what, way }) => {
      if (from === 'c' && to === 'a' && way === 'answer') said.add(what);
      // Node c has answered, does not hear what was decided, and confirms that b is a member.
      if (said.size === 2) cutOff(cluster, 'a');
    };
    const removed = administrationOf(cluster, 'a').removeMember({ name: 'b', acceptLoss: true });
    while (a.agent.members.get('id-b')?.state !== 'left') await cluster.pass(1);
    cluster.network.onArrival = undefined;
    b.h.clock.goOn();
    await cluster.run(b.h.enqueue(`${group}#q`, ['2']));
    cluster.cut.clear();
    cutOff(cluster, 'a', ['b']);
    await cluster.run(removed);
    while (cluster.node('c').agent.members.get('id-b')?.state !== 'left') await cluster.pass(1);
    await cluster.pass(20);
    await expect(cluster.run(b.h.enqueue(`${group}#q`, ['3']))).rejects.toMatchObject({ reason: 'MEMBER_LEFT' });
    for (let passed = 0; passed < 5_000; passed += 100) {
      for (const id of orphans) expect(a.partitions.holds(id)).toBe(false);
      await cluster.pass(100);
    }
    await cluster.pass(30_000);
    await expectOneHolderEach(cluster);
  });

  test('cannot hand anything over any more, once the others know', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await fill(cluster, '1');
    const [b, c] = [cluster.node('b'), cluster.node('c')];
    const held = b.partitions.held().filter(({ tasks }) => tasks > 0)[0];
    if (!held) throw new Error('node b holds nothing');
    // It stands still in the middle of a transfer, for so long that it is given up.
    let stood = false;
    cluster.network.onArrival = ({ what, way }) => {
      if (stood || what !== 'sendRows' || way !== 'answer') return;
      stood = true;
      b.h.clock.standStill();
    };
    b.send(held.id, c).catch(() => {});
    await cluster.pass(DEATH_MS);
    expect(stood).toBe(true);
    await remove(cluster, 'a', 'b', true);
    // The moment in which it is given up and nothing is claimed yet.
    b.h.clock.goOn();
    await cluster.pass(30_000);
    await expectOneHolderEach(cluster);
    expect(b.agent.self?.state).toBe('left');
    const [group = ''] = GROUPS.filter((name) => cluster.holderOf(name)?.partitions.holds(held.id));
    expect(group).not.toBe('');
    for (const { agent } of cluster.up.filter((node) => node !== b)) {
      expect(agent.view.get(held.id)?.epoch).toBeGreaterThanOrEqual(held.epoch + 2);
    }
  });
});

describe('giving a member up is refused', () => {
  test('while it is alive', async () => {
    const cluster = await clusterOf(['a', 'b']);
    for (const through of ['a', 'b']) {
      await expect(remove(cluster, through, 'b', true)).rejects.toMatchObject({ reason: 'MEMBER_ALIVE' });
    }
    expect(cluster.node('a').agent.members.get('id-b')?.state).toBe('active');
  });

  test('while it answers, though gossip takes it for dead', async () => {
    const cluster = await clusterOf(['a', 'b']);
    const { membership } = cluster.node('a');
    membership.peers = () => [];
    await expect(remove(cluster, 'a', 'b', true)).rejects.toMatchObject({ reason: 'MEMBER_ALIVE' });
  });

  test.each(['a', 'b'])(
    'while another one does not answer, asked at %s: it may hold what seems lost',
    async (through) => {
      const cluster = await clusterOf(['a', 'b', 'c', 'd']);
      for (const name of ['c', 'd']) await cluster.run(cluster.node(name).lose());
      await cluster.pass(DEATH_MS);
      for (const acceptLoss of [false, true]) {
        await expect(remove(cluster, through, 'd', acceptLoss)).rejects.toMatchObject({
          reason: 'HOLDER_UNREACHABLE',
          metadata: { members: 'c' },
        });
      }
      await cluster.run(cluster.node('c').start());
      await cluster.pass(5_000);
      expect(await remove(cluster, through, 'd', true)).toMatchObject({ removed: true });
    },
  );

  test('for whoever is unknown, left already, or the last', async () => {
    const cluster = await clusterOf(['a', 'b']);
    await expect(remove(cluster, 'a', 'x', true)).rejects.toMatchObject({ reason: 'UNKNOWN_MEMBER' });
    await cluster.run(cluster.node('b').lose());
    await cluster.pass(DEATH_MS);
    await remove(cluster, 'a', 'b', true);
    await expect(remove(cluster, 'a', 'b', true)).rejects.toMatchObject({ reason: 'MEMBER_LEFT' });
    await expect(remove(cluster, 'a', 'a', true)).rejects.toMatchObject({ reason: 'MEMBER_ALIVE' });
  });

  test('where nobody would be left to take its partitions', async () => {
    const cluster = await clusterOf(['a', 'b']);
    await cluster.run(cluster.node('b').lose());
    await cluster.run(cluster.node('a').agent.leave());
    await cluster.pass(DEATH_MS);
    await expect(remove(cluster, 'a', 'b', true)).rejects.toMatchObject({ reason: 'LAST_MEMBER' });
  });
});

describe('who claims what a removed member held', () => {
  test('hears every other member before', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const b = cluster.node('b');
    const held = b.partitions.held();
    await cluster.run(b.lose());
    await cluster.pass(DEATH_MS);
    await remove(cluster, 'a', 'b', true);
    await cluster.run(cluster.node('c').lose());
    await cluster.pass(60_000);
    for (const { id } of held) expect(cluster.serving(id)).toEqual([]);
    const claimed = new Map<number, number>();
    cluster.onHoldings = ({ name, partitions }) => {
      if (name !== 'a') return;
      for (const { id, epoch } of partitions.held()) if (!claimed.has(id)) claimed.set(id, epoch);
    };
    await cluster.run(cluster.node('c').start());
    await cluster.pass(60_000);
    await expectOneHolderEach(cluster);
    // Nothing that the removed member did unheard can be of that epoch.
    for (const { id, epoch } of held) expect(claimed.get(id)).toBe(epoch + 2);
  });

  test('is who decided, when it is back after it died between the decision and the claim', async () => {
    const cluster = await clusterOf(['a', 'b', 'c', 'd']);
    await fill(cluster, '1');
    const orphans = idsHeldBy(cluster.node('d'));
    await cluster.run(cluster.node('d').lose());
    await cluster.pass(DEATH_MS);
    await remove(cluster, 'a', 'd', true);
    await cluster.run(cluster.node('a').lose());
    await cluster.pass(60_000);
    for (const id of orphans) expect(cluster.serving(id)).toEqual([]);
    await cluster.run(cluster.node('a').start());
    await cluster.pass(60_000);
    await expectOneHolderEach(cluster);
  });

  test('is one who knows of the removal though the one who decided is given up too', async () => {
    const cluster = await clusterOf(['a', 'b', 'c', 'd']);
    const orphans = [...idsHeldBy(cluster.node('d')), ...idsHeldBy(cluster.node('a'))];
    await cluster.run(cluster.node('d').lose());
    await cluster.pass(DEATH_MS);
    await remove(cluster, 'a', 'd', true);
    await cluster.run(cluster.node('a').lose());
    await cluster.pass(DEATH_MS);
    expect(await remove(cluster, 'c', 'a', true)).toMatchObject({ removed: true });
    await cluster.pass(60_000);
    expect(orphans.length).toBeGreaterThan(0);
    await expectOneHolderEach(cluster);
    for (const id of orphans) expect(['b', 'c']).toEqual(expect.arrayContaining(cluster.serving(id)));
  });

  test('goes on after all nodes were started again', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await cluster.run(cluster.node('c').lose());
    await cluster.pass(DEATH_MS);
    await remove(cluster, 'a', 'c', true);
    for (const name of ['a', 'b']) await cluster.run(cluster.node(name).lose());
    for (const name of ['a', 'b']) await cluster.run(cluster.node(name).start());
    await cluster.pass(60_000);
    await expectOneHolderEach(cluster);
  });
});
