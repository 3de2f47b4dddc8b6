import { type PartitionId, Refusal } from '@taskmaster/engine/domain';
import { pidsOf } from '@taskmaster/engine/testing';
import { partitionOf } from '@taskmaster/proto';
import { describe, expect, test, vi } from 'vitest';
import {
  CLAIM_MS,
  clusterOf,
  cutOff,
  cutOffAtTake,
  DEATH_MS,
  expectOneHolderEach,
  fill,
  GROUPS,
  groupsOf,
  idsHeldBy,
  lose,
  partitionWithTasks,
  pidsIn,
  removeMembers,
  requestRemoval,
} from '../../testing/cluster-fixtures.ts';

describe('a member that is removed during a hand-off', () => {
  test.each(['runs on', 'restarts'])(
    'was told to take a partition and never said that it did: the holder %s after a failed attempt to take it back, and tries again',
    async (then) => {
      const cluster = await clusterOf(['a', 'b', 'c']);
      await fill(cluster, '1');
      const [a, b] = [cluster.node('a'), cluster.node('b')];
      const held = partitionWithTasks(a);
      cutOffAtTake(cluster, 'b');
      a.send(held.id, b).catch(() => {});
      await cluster.pass(5_000);
      await cluster.run(b.lose());
      await cluster.pass(DEATH_MS);
      expect(a.partitions.holding(held.id)?.kind).toBe('handing-over');
      const full = new Refusal('DISK_FULL', 'the disk is full');
      const thaw = vi.spyOn(a.partitions, 'thaw').mockRejectedValue(full);
      await removeMembers(cluster, 'c', 'b');
      await cluster.pass(1_000);
      expect(thaw).toHaveBeenCalled();
      expect(a.partitions.holding(held.id)?.kind).toBe('handing-over');
      if (then === 'restarts') {
        await cluster.run(a.lose());
        await cluster.run(a.start());
      }
      thaw.mockRestore();
      await cluster.pass(CLAIM_MS);
      expect(a.partitions.holding(held.id)).toMatchObject({ kind: 'serving', epoch: held.epoch + 2 });
      expect(a.partitions.held().find((one) => one.id === held.id)?.tasks).toBe(held.tasks);
      await cluster.pass(CLAIM_MS);
      expectOneHolderEach(cluster);
    },
  );

  test('took a partition and passed it on, and the first holder knows neither: that holder takes it back', async () => {
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

  test('receives nothing any more, even if a transfer to it has just begun', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await fill(cluster, '1');
    const [a, b] = [cluster.node('a'), cluster.node('b')];
    const held = partitionWithTasks(a);
    let stood = false;
    cluster.network.onArrival = ({ from, what, way }) => {
      if (stood || from !== 'a' || what !== 'sendRows' || way !== 'request') return;
      stood = true;
      b.h.clock.standStill();
    };
    a.send(held.id, b).catch(() => {});
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'b');
    // It answers before it has heard of its removal.
    b.h.clock.goOn();
    await cluster.pass(100);
    expect(a.partitions.holding(held.id)).toMatchObject({ kind: 'serving', epoch: held.epoch });
    await cluster.pass(30_000);
    expectOneHolderEach(cluster);
    for (const { agent, partitions } of cluster.up.filter((node) => node !== b)) {
      const { epoch = 0, tasks } = partitions.held().find(({ id }) => id === held.id) ?? {};
      if (epoch > 0) expect({ agent: agent.nodeId, tasks }).toEqual({ agent: agent.nodeId, tasks: held.tasks });
    }
  });

  test('was sending a partition to the node that restarts it empty: no row of the transfer reappears', async () => {
    // Node a has the lowest id and decides. It joined last, so it has never held the partitions of c.
    const cluster = await clusterOf(['b', 'c', 'a']);
    await fill(cluster, '1');
    const [a, c] = [cluster.node('a'), cluster.node('c')];
    const held = partitionWithTasks(c);
    expect(a.partitions.holding(held.id)).toBeUndefined();
    const groups = groupsOf(cluster, c).filter((group) => partitionOf(group, cluster.partitions) === held.id);
    cluster.network.onArrival = ({ what, way }) => {
      if (what === 'sendRows' && way === 'answer') void c.lose();
    };
    c.send(held.id, a).catch(() => {});
    await cluster.pass(DEATH_MS);
    // So the partition stays at the node that claims it.
    await cluster.run(cluster.node('b').stop());
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'b', 'c');
    await cluster.pass(CLAIM_MS);
    expect(a.partitions.holding(held.id)?.kind).toBe('serving');
    for (const group of groups) await cluster.run(a.h.enqueue(`${group}#other`, ['9']));
    await cluster.run(a.lose());
    await cluster.run(a.start());
    await cluster.pass(CLAIM_MS);
    for (const group of groups) {
      expect(pidsOf(await cluster.run(a.h.lease(`${group}#other`, { max: 9 })))).toEqual(['9']);
      expect(await pidsIn(cluster, group)).toEqual([]);
    }
  });

  test('is not believed any more, and is told why', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const held = idsHeldBy(cluster.node('b'))[0] ?? (0 as PartitionId);
    await lose(cluster, 'b');
    await cluster.pass(DEATH_MS);
    await removeMembers(cluster, 'a', 'b');
    await cluster.pass(30_000);
    const c = cluster.node('c');
    const before = c.agent.view.get(held);
    const claimed = { partition: held, nodeId: 'id-b', epoch: 99, queues: 0, tasks: 0, countedMs: 0, durableMark: 0 };
    const knowledge = { members: [], holders: [claimed] };
    const { handlers } = c;
    if (!handlers) throw new Error('node c is down');
    const answer = await cluster.run(
      handlers.exchange({ clusterId: 'cluster-1', from: 'id-b', knowledge, release: undefined }),
    );
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
      life: 0,
      dataFormat: 1,
    };
    await expect(cluster.run(handlers.offerPartition(offer))).rejects.toMatchObject({ reason: 'MEMBER_LEFT' });
  });

  test('and continued just before others knew of the removal is told of it before its partitions are claimed', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await fill(cluster, '1');
    const [a, b] = [cluster.node('a'), cluster.node('b')];
    const [group = ''] = groupsOf(cluster, b);
    const orphans = idsHeldBy(b);
    b.h.clock.standStill();
    cutOff(cluster, 'a', ['b']);
    await cluster.pass(DEATH_MS);
    // Gossip does not tell it either.
    Object.assign(cluster.gossip, { reach: () => ({ drop: true, delayMs: 1 }) });
    const said = new Set<string>();
    cluster.network.onArrival = ({ from, to, what, way }) => {
      if (from === 'c' && to === 'a' && way === 'answer') said.add(what);
      // Node c has answered, does not learn of the decision, and confirms that b is a member.
      if (said.size === 2) cutOff(cluster, 'a');
    };
    const removed = requestRemoval(cluster, 'a', ['b'], { acceptLoss: true });
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
    expectOneHolderEach(cluster);
  });

  test('cannot hand over partitions any more once the others know of the removal', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await fill(cluster, '1');
    const [b, c] = [cluster.node('b'), cluster.node('c')];
    const held = partitionWithTasks(b);
    // It pauses during a transfer for long enough to be removed.
    let stood = false;
    cluster.network.onArrival = ({ what, way }) => {
      if (stood || what !== 'sendRows' || way !== 'answer') return;
      stood = true;
      b.h.clock.standStill();
    };
    b.send(held.id, c).catch(() => {});
    await cluster.pass(DEATH_MS);
    expect(stood).toBe(true);
    await removeMembers(cluster, 'a', 'b');
    // It is removed, and no partition is claimed yet.
    b.h.clock.goOn();
    await cluster.pass(30_000);
    expectOneHolderEach(cluster);
    expect(b.agent.self?.state).toBe('left');
    const [group = ''] = GROUPS.filter((name) => cluster.holderOf(name)?.partitions.holds(held.id));
    expect(group).not.toBe('');
    for (const { agent } of cluster.up.filter((node) => node !== b)) {
      expect(agent.view.get(held.id)?.epoch).toBeGreaterThanOrEqual(held.epoch + 2);
    }
  });
});
