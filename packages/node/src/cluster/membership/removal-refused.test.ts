import { describe, expect, test } from 'vitest';
import { clusterOf, DEATH_MS, lose, removeMembers, reportOn, start, stateOf } from '../../testing/cluster-fixtures.ts';

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

  test.each([
    { down: ['c', 'd'], named: ['d'], through: 'a', silent: 'c' },
    { down: ['c', 'd'], named: ['d'], through: 'b', silent: 'c' },
    { down: ['b', 'c', 'd'], named: ['b', 'c'], through: 'a', silent: 'd' },
  ])(
    'while $silent does not answer and is not named: it may hold what $named seem to hold (asked at $through)',
    async ({ down, named, through, silent }) => {
      const cluster = await clusterOf(['a', 'b', 'c', 'd']);
      await lose(cluster, ...down);
      await cluster.pass(DEATH_MS);
      const refused = { reason: 'HOLDER_UNREACHABLE', metadata: { members: silent } };
      for (const ask of [reportOn, removeMembers]) {
        await expect(ask(cluster, through, ...named)).rejects.toMatchObject(refused);
      }
      for (const name of named) expect(stateOf(cluster, 'a', name)).toBe('active');
      await start(cluster, silent);
      await cluster.pass(5_000);
      expect(await removeMembers(cluster, silent, ...named)).toMatchObject({ removed: true });
    },
  );

  test('if one is unknown, has left or is removed already, or is the node that is asked', async () => {
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

  test('if no member would remain to take its partitions', async () => {
    const cluster = await clusterOf(['a', 'b']);
    await lose(cluster, 'b');
    await cluster.run(cluster.node('a').agent.leave());
    await cluster.pass(DEATH_MS);
    await expect(removeMembers(cluster, 'a', 'b')).rejects.toMatchObject({ reason: 'LAST_MEMBER' });
  });
});
