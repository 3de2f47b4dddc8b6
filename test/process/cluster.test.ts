import { setTimeout as delay } from 'node:timers/promises';
import type { TaskMasterClient } from '@taskmaster/client';
import { SeededRandom } from '@taskmaster/engine/testing';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { TestCluster } from '../support/processes/start-cluster.ts';
import { startProxy } from '../support/processes/start-proxy.ts';
import { MixedLoad } from './mixed-load.ts';
import { verifyLoad } from './verify-load.ts';

const SEED = Number(process.env.TASKMASTER_SEED ?? 1);
const GROUPS = Array.from({ length: 10 }, (_, number) => `load-${number}`);

/** Waits until every partition is at the node that the ring assigns, and all nodes are members. */
async function settled(client: TaskMasterClient, names: readonly string[]): Promise<void> {
  await eventually(
    async () => {
      const { members } = await client.cluster.members();
      const nodes = members.filter((member) => member.role === 'node' && member.state !== 'left');
      expect(nodes.map(({ name }) => name)).toEqual([...names]);
      for (const node of nodes) {
        if (node.role !== 'node') continue;
        expect({ ...node, partitionsHeld: node.partitionsWanted }).toEqual(node);
        expect(node).toMatchObject({ state: 'active', alive: true });
      }
    },
    { withinMs: 30_000, everyMs: 50 },
  );
}

async function progress(load: MixedLoad, updates: number): Promise<void> {
  const enough = load.acknowledged + updates;
  await eventually(() => expect(load.acknowledged).toBeGreaterThan(enough), { withinMs: 60_000 });
}

describe('a cluster of three nodes and a proxy, under load', { timeout: 240_000 }, () => {
  test('loses nothing while nodes are killed, paused, added and drained', async () => {
    const random = new SeededRandom(SEED);
    await using cluster = await TestCluster.start();
    await using proxy = await startProxy(cluster.endpoints);
    await using client = await cluster.connect();
    await settled(client, ['a', 'b', 'c']);
    const endpoints = [proxy.endpoint, ...cluster.endpoints];
    const load = await MixedLoad.start({ endpoints, seed: SEED, groups: GROUPS, pauseMs: 1_000 });
    await progress(load, 50);

    for (const name of random.shuffle(['a', 'b', 'c'])) {
      await cluster.node(name).kill();
      await delay(random.int(1_500));
      await cluster.start(name);
      await progress(load, 50);
    }

    const stopped = cluster.node(random.pick(['a', 'b', 'c']));
    process.kill(stopped.pid, 'SIGSTOP');
    const joined = cluster.add('d');
    await delay(7_000);
    process.kill(stopped.pid, 'SIGCONT');
    await joined;
    await progress(load, 50);
    await settled(client, ['a', 'b', 'c', 'd']);

    await client.cluster.drain('b');
    expect((await cluster.node('b').process.ended).code).toBe(0);
    await settled(client, ['a', 'c', 'd']);
    await progress(load, 50);

    await load.stop();
    await settled(client, ['a', 'c', 'd']);
    const { summary, problem } = await verifyLoad(client, load.history);
    console.log(`seed ${SEED}: ${summary}`);
    expect(problem).toBe('');
  });
});
