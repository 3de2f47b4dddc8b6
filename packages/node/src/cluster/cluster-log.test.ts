import { expect, test } from 'vitest';
import { DEATH_MS } from '../testing/cluster-fixtures.ts';
import { SimCluster } from '../testing/sim-cluster.ts';

const PARTITIONS = 64;

/** A cluster and the log of its nodes, as lines `node level message`. */
async function clusterOf(...names: string[]) {
  const said: string[] = [];
  const log = (node: string) => {
    const say = (level: string) => (_: object, message: string) => void said.push(`${node} ${level} ${message}`);
    return { debug: () => {}, info: say('info'), warn: say('warn'), error: say('error') };
  };
  const cluster = new SimCluster({ partitions: PARTITIONS, log });
  for (const name of names) {
    await cluster.run(cluster.add(name).start());
    await cluster.pass(30_000);
  }
  said.length = 0;
  return { cluster, said };
}

test('a member that joins logs in a few lines what it takes over; the others log what they hand over', async () => {
  const { cluster, said } = await clusterOf('a', 'b');
  await cluster.run(cluster.add('c').start());
  await cluster.pass(60_000);
  const share = cluster.shares().c ?? 0;
  const ofC = said.filter((line) => line.startsWith('c '));
  expect(ofC[0]).toMatch(new RegExp(`^c info c takes ${share} partitions over, from a \\(\\d+\\), b \\(\\d+\\)$`));
  expect(ofC.at(-1)).toMatch(new RegExp(`^c info c has its share: ${share} partitions, 0 tasks, after \\d+\\.\\d s$`));
  expect(said).toContainEqual(expect.stringMatching(/^a info a hands \d+ partitions over, to c \(\d+\)$/));
  // This does not depend on the number of partitions.
  expect(said.length).toBeLessThan(12);
  expect(said.filter((line) => !/^\w info /.test(line))).toEqual([]);
});

test('a member that leaves logs the beginning and the end, without warnings', async () => {
  const { cluster, said } = await clusterOf('a', 'b', 'c');
  const share = cluster.shares().b;
  await cluster.run(cluster.node('b').agent.leave());
  await cluster.run(cluster.node('b').agent.left);
  await cluster.pass(60_000);
  const ofB = said.filter((line) => line.startsWith('b '));
  const begins = new RegExp(
    `^b info b leaves the cluster: it hands ${share} partitions over, to a \\(\\d+\\), c \\(\\d+\\)$`,
  );
  expect(ofB[0]).toMatch(begins);
  expect(ofB.at(-1)).toBe('b info this node has left the cluster');
  expect(said.filter((line) => !/^\w info /.test(line))).toEqual([]);
  expect(said.length).toBeLessThan(12);
});

test('the death and the return of a member are logged once each', async () => {
  const { cluster, said } = await clusterOf('a', 'b', 'c');
  const share = cluster.shares().b;
  await cluster.run(cluster.node('b').lose());
  await cluster.pass(DEATH_MS + 60_000);
  const missing = `warn member b does not answer; ${share} partitions wait for it`;
  expect(said.toSorted()).toEqual([`a ${missing}`, `c ${missing}`]);
  said.length = 0;
  await cluster.run(cluster.node('b').start());
  await cluster.pass(60_000);
  expect(said.toSorted()).toEqual(['a info member b answers again', 'c info member b answers again']);
});
