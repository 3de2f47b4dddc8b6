import { describe, expect, test } from 'vitest';
import {
  clusterOf,
  cutOff,
  DEATH_MS,
  fill,
  groupsOf,
  lose,
  queueOf,
  removeMembers,
  start,
} from '../../testing/cluster-fixtures.ts';
import type { SimCluster, SimNode } from '../../testing/sim-cluster.ts';

describe('a node that is started', () => {
  test('serves at once when it is alone', async () => {
    const cluster = await clusterOf(['a']);
    const a = cluster.node('a');
    await cluster.run(a.lose());
    await cluster.run(a.start());
    const before = cluster.time.now();
    await cluster.run(a.h.enqueue(queueOf(cluster, a), ['1']));
    expect(cluster.time.now() - before).toBeLessThan(50);
  });

  test('serves once another member has answered', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const a = cluster.node('a');
    await lose(cluster, 'a', 'c');
    await cluster.run(a.start());
    const before = cluster.time.now();
    await cluster.run(a.h.enqueue(queueOf(cluster, a), ['1']));
    expect(cluster.time.now() - before).toBeLessThan(100);
  });

  test('lets callers wait for two seconds, then refuses them at once, until another member answers', async () => {
    const cluster = await clusterOf(['a', 'b']);
    const a = cluster.node('a');
    await lose(cluster, 'a', 'b');
    await cluster.run(a.start());
    const queue = queueOf(cluster, a);
    const before = cluster.time.now();
    const waited = (): number => cluster.time.now() - before;
    await expect(cluster.run(a.h.enqueue(queue, ['1']))).rejects.toMatchObject({
      reason: 'STARTING',
      retryDelayMs: expect.any(Number),
    });
    expect(waited()).toBeGreaterThanOrEqual(1_500);
    expect(waited()).toBeLessThanOrEqual(3_000);
    await cluster.pass(60_000);
    const later = cluster.time.now();
    await expect(cluster.run(a.h.lease(queue, { wait: 5_000 }))).rejects.toMatchObject({ reason: 'STARTING' });
    await expect(cluster.run(a.h.counts(queue))).rejects.toMatchObject({ reason: 'STARTING' });
    expect(cluster.time.now() - later).toBeLessThan(100);
    await start(cluster, 'b');
    await cluster.pass(2_000);
    await cluster.run(a.h.enqueue(queue, ['1']));
  });

  test('says which member it waits for, and continues when that member is removed', async () => {
    const warnings: string[] = [];
    const note = (details: object, message: string): void => {
      if (message.includes('no other member answers')) warnings.push(`${message} ${JSON.stringify(details)}`);
    };
    const log = { debug: () => {}, info: () => {}, warn: note, error: () => {} };
    const cluster = await clusterOf(['a', 'b'], { log: () => log });
    const a = cluster.node('a');
    await lose(cluster, 'a', 'b');
    await cluster.run(a.start());
    await cluster.pass(65_000);
    expect(warnings).toHaveLength(3);
    expect(warnings[0]).toContain('"name":"b"');
    expect(warnings[0]).toContain('taskmaster members remove');
    await removeMembers(cluster, 'a', 'b');
    await cluster.run(a.h.enqueue(queueOf(cluster, a), ['1']));
    await cluster.pass(30_000);
    expect(cluster.shares()).toEqual({ a: cluster.partitions });
  });

  test('serves within a second when all members restart together: no member could have removed another', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await lose(cluster, 'a', 'b', 'c');
    await cluster.run(Promise.all([...cluster.nodes.values()].map((node) => node.start())));
    const before = cluster.time.now();
    for (const node of cluster.nodes.values()) {
      await cluster.run(node.h.enqueue(queueOf(cluster, node), ['1']));
    }
    expect(cluster.time.now() - before).toBeLessThan(1_000);
  });

  test('looks for the other members for ten seconds if the ones that answer are waiting, too', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    await lose(cluster, 'a', 'b', 'c');
    await start(cluster, 'a', 'b');
    const [a, b] = [cluster.node('a'), cluster.node('b')];
    const queue = queueOf(cluster, a);
    await cluster.pass(8_000);
    await expect(cluster.run(a.h.enqueue(queue, ['1']))).rejects.toMatchObject({ reason: 'STARTING' });
    expect(a.agent.problem).toBe('it waits for one of the other members to answer: c');
    await cluster.pass(4_000);
    for (const node of [a, b]) await cluster.run(node.h.enqueue(queueOf(cluster, node), ['1']));
    expect(a.agent.problem).toBeUndefined();
    // The answer of a serving member suffices.
    const before = cluster.time.now();
    await start(cluster, 'c');
    await cluster.run(cluster.node('c').h.enqueue(queueOf(cluster, cluster.node('c')), ['1']));
    expect(cluster.time.now() - before).toBeLessThan(200);
  });

  test.each([
    { here: ['a', 'b'], away: ['c', 'd'] },
    { here: ['b'], away: ['a', 'c'] },
  ])(
    'waits while half or more of the members it knows stay away, here $away, and continues when these are removed',
    async ({ here, away }) => {
      const cluster = await clusterOf([...here, ...away].toSorted());
      const nodes = here.map((name) => cluster.node(name));
      for (const node of nodes) await cluster.run(node.h.enqueue(queueOf(cluster, node), ['1']));
      await lose(cluster, ...here, ...away);
      await start(cluster, ...here);
      await cluster.pass(60_000);
      for (const node of nodes) {
        const enqueued = cluster.run(node.h.enqueue(queueOf(cluster, node), ['2']));
        await expect(enqueued).rejects.toMatchObject({ reason: 'STARTING' });
        expect(node.agent.problem).toBe(`it waits for one of the other members to answer: ${away.join(', ')}`);
      }
      await removeMembers(cluster, 'b', ...away);
      for (const node of nodes) {
        const queue = queueOf(cluster, node);
        await cluster.run(node.h.enqueue(queue, ['2']));
        expect(await cluster.run(node.h.counts(queue))).toMatchObject({ available: 2 });
      }
    },
  );

  test('asks members that gossip does not see', async () => {
    const cluster = await clusterOf(['a', 'b']);
    const a = cluster.node('a');
    await cluster.run(a.lose());
    // Datagrams do not pass, calls do.
    Object.assign(cluster.gossip, { reach: () => ({ drop: true, delayMs: 1 }) });
    await cluster.run(a.start());
    await cluster.run(a.h.enqueue(queueOf(cluster, a), ['1']));
    expect(a.membership.peers()).toEqual([]);
  });

  test('does not accept the confirmation of a member that has left', async () => {
    const cluster = await clusterOf(['a', 'b', 'c']);
    const [a, b, c] = [cluster.node('a'), cluster.node('b'), cluster.node('c')];
    await cluster.run(c.agent.leave());
    while (c.partitions.held().length > 0) await cluster.pass(1);
    // It is down when c leaves.
    await cluster.run(b.lose());
    await cluster.run(c.agent.left);
    await cluster.run(a.lose());
    await cluster.run(b.start());
    await cluster.pass(1_000);
    expect(b.agent.members.get('id-c')?.state).toBe('left');
    await expect(cluster.run(b.h.enqueue(queueOf(cluster, b), ['1']))).rejects.toMatchObject({ reason: 'STARTING' });
  });

  test('does not accept the confirmation of another node at a member’s address', async () => {
    const cluster = await clusterOf(['a', 'b']);
    const a = cluster.node('a');
    await lose(cluster, 'a', 'b');
    await cluster.run(a.start());
    // The address of b is now that of a itself.
    cluster.nodes.set('b', a);
    await cluster.pass(5_000);
    await expect(cluster.run(a.h.enqueue(queueOf(cluster, a), ['1']))).rejects.toMatchObject({ reason: 'STARTING' });
  });
});

describe('a node that was paused', () => {
  /** Longer than the other members need to remove it. */
  async function standStill(cluster: SimCluster, node: SimNode, ms: number): Promise<void> {
    node.h.clock.standStill();
    await cluster.pass(ms);
  }

  test('asks before it continues, and then serves', async () => {
    const cluster = await clusterOf(['a', 'b']);
    const b = cluster.node('b');
    const queue = queueOf(cluster, b);
    await standStill(cluster, b, 60_000);
    const enqueued = b.h.enqueue(queue, ['1']);
    b.h.clock.goOn();
    await cluster.run(enqueued);
    expect(b.agent.self?.state).toBe('active');
  });

  test('waits while no member answers', async () => {
    const cluster = await clusterOf(['a', 'b']);
    const b = cluster.node('b');
    const queue = queueOf(cluster, b);
    await standStill(cluster, b, 6_000);
    cutOff(cluster, 'b');
    b.h.clock.goOn();
    await expect(cluster.run(b.h.enqueue(queue, ['1']))).rejects.toMatchObject({ reason: 'STARTING' });
    cluster.heal();
    await cluster.pass(3_000);
    await cluster.run(b.h.enqueue(queue, ['1']));
  });

  test('does not ask after a shorter pause', async () => {
    const cluster = await clusterOf(['a', 'b']);
    const b = cluster.node('b');
    const queue = queueOf(cluster, b);
    await standStill(cluster, b, 3_000);
    cutOff(cluster, 'b');
    b.h.clock.goOn();
    await cluster.run(b.h.enqueue(queue, ['1']));
  });

  test('asks if its machine was suspended, too: only the system clock shows that', async () => {
    const cluster = await clusterOf(['a', 'b']);
    const b = cluster.node('b');
    const queue = queueOf(cluster, b);
    cutOff(cluster, 'b');
    b.h.clock.stepWall(60_000);
    await expect(cluster.run(b.h.enqueue(queue, ['1']))).rejects.toMatchObject({ reason: 'STARTING' });
    cluster.heal();
    await cluster.pass(3_000);
    await cluster.run(b.h.enqueue(queue, ['1']));
  });

  test('does not ask because its clock was set back', async () => {
    const cluster = await clusterOf(['a', 'b']);
    const b = cluster.node('b');
    const queue = queueOf(cluster, b);
    cutOff(cluster, 'b');
    b.h.clock.stepWall(-60_000);
    await cluster.run(b.h.enqueue(queue, ['1']));
    await cluster.pass(2_000);
    await cluster.run(b.h.enqueue(queue, ['2']));
  });

  test('commits nothing if it was removed meanwhile, not even in the turn in which it continues', async () => {
    const errors: string[] = [];
    const error = (_: object, message: string): void => void errors.push(message);
    const log = { debug: () => {}, info: () => {}, warn: () => {}, error };
    const cluster = await clusterOf(['a', 'b', 'c'], { log: () => log });
    await fill(cluster, '1');
    const b = cluster.node('b');
    const queue = queueOf(cluster, b);
    await standStill(cluster, b, DEATH_MS);
    await removeMembers(cluster, 'a', 'b');
    await cluster.pass(50_000);
    const callers = ['2', '3', '4'].map((pid) =>
      b.h.enqueue(`${queue}`, [pid]).then(
        () => 'done',
        ({ reason }) => reason,
      ),
    );
    b.h.clock.goOn();
    const refused = ['MEMBER_LEFT', 'NOT_HOLDER', 'STARTING'];
    for (const outcome of await cluster.run(Promise.all(callers))) expect(refused).toContain(outcome);
    await cluster.pass(30_000);
    const [group = ''] = queue.split('#');
    const holder = cluster.up.find((node) => node !== b && groupsOf(cluster, node).includes(group));
    expect(holder).toBeDefined();
    expect(await cluster.run(holder?.h.counts(queue) ?? Promise.reject())).toMatchObject({ available: 0 });
    expect(errors.filter((message) => message.includes('removed by an operator'))).toHaveLength(1);
  });

  test('does not count an answer from before the pause', async () => {
    const cluster = await clusterOf(['a', 'b']);
    const b = cluster.node('b');
    const queue = queueOf(cluster, b);
    // The first answer arrives, but the node pauses before it has read it.
    let asked = false;
    cluster.network.onArrival = ({ to, what, way }) => {
      if (to !== 'b' || what !== 'exchange' || way !== 'answer' || asked) return;
      asked = true;
      b.h.clock.standStill();
    };
    await cluster.run(b.lose());
    await cluster.run(b.start());
    await cluster.pass(DEATH_MS);
    expect(asked).toBe(true);
    cutOff(cluster, 'b');
    b.h.clock.goOn();
    await expect(cluster.run(b.h.enqueue(queue, ['1']))).rejects.toMatchObject({ reason: 'STARTING' });
  });
});
