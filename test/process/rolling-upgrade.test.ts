import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from '@taskmaster/client';
import { DATA_FORMAT, OLDEST_READER_FORMAT } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { TestCluster } from '../support/processes/start-cluster.ts';
import { type RunningProxy, startProxy } from '../support/processes/start-proxy.ts';
import { previousRelease, whyNoPreviousRelease } from '../support/releases/previous-release.ts';
import { MixedLoad } from './mixed-load.ts';
import { verifyLoad } from './verify-load.ts';

const GROUPS = Array.from({ length: 10 }, (_, number) => `load-${number}`);
const NODES = ['a', 'b', 'c'];
/** Whether the previous release can use what this one writes. */
const mayGoBack = OLDEST_READER_FORMAT < DATA_FORMAT;
const back = mayGoBack ? 'nor on the way back' : 'from which there is no way back';
const isWanted = process.env.TASKMASTER_UPGRADE_TEST !== undefined;
const why = isWanted ? whyNoPreviousRelease() : '`npm run upgrade-test` runs it, in about two minutes';
const skipped = why === undefined ? '' : ` (skipped: ${why})`;

test.skipIf(why !== undefined)(
  `no call fails in a rolling upgrade from the previous data format, ${back}${skipped}`,
  { timeout: 300_000 },
  async () => {
    const previous = await previousRelease();
    await using cluster = await TestCluster.start({ cli: previous.nodeCli });
    await using proxies = new Proxies(cluster);
    await proxies.start(previous.proxyCli);
    const formats = (): Promise<number[]> => Promise.all(NODES.map((name) => formatOf(cluster.dirOf(name))));
    const [before, after] = [DATA_FORMAT - 1, DATA_FORMAT];
    expect(await formats()).toEqual([before, before, before]);
    const load = await MixedLoad.start({
      endpoints: proxies.endpoints,
      seed: 1,
      groups: GROUPS,
      // For about half a minute: a node may start slowly while other tests run.
      maxAttempts: 12,
      connects: [previous.client.connect, connect],
    });
    const goOn = async (): Promise<void> => {
      const enough = load.acknowledged + 100;
      await eventually(() => expect(load.acknowledged).toBeGreaterThan(enough), { withinMs: 30_000 });
    };
    const replace = async (name: string): Promise<void> => {
      expect((await cluster.node(name).stop()).code).toBe(0);
      await cluster.start(name);
      await goOn();
    };
    await goOn();

    cluster.cli = undefined;
    await replace('b');
    expect(await formats()).toEqual([before, after, before]);
    // Partitions move from one release to the other, and back if they may.
    const d = await cluster.add('d');
    await using client = await cluster.connect();
    await settled(client);
    const drain = async (): Promise<void> => {
      await client.cluster.drain('d');
      expect((await d.process.ended).code).toBe(0);
      await goOn();
    };
    if (mayGoBack) await drain();
    await replace('a');
    await replace('c');
    if (!mayGoBack) await drain();
    expect(await formats()).toEqual([after, after, after]);
    await proxies.replace(undefined, goOn);

    if (mayGoBack) {
      await proxies.replace(previous.proxyCli, goOn);
      cluster.cli = previous.nodeCli;
      for (const name of NODES) await replace(name);
    } else {
      expect((await cluster.node('b').stop()).code).toBe(0);
      cluster.cli = previous.nodeCli;
      await expect(cluster.start('b')).rejects.toThrow(`has data format ${after}`);
      cluster.cli = undefined;
      await cluster.start('b');
      await goOn();
    }
    await load.stop();
    const { summary, problem } = await verifyLoad(client, load.history);
    console.log(`3 nodes and 2 proxies upgraded, ${back}: ${summary}; ${load.failed} calls failed`);
    expect(problem).toBe('');
    expect(load.failed).toBe(0);
  },
);

/** The data format of a node's directory. */
async function formatOf(dir: string): Promise<number> {
  const [text = ''] = (await readFile(join(dir, 'format'), 'utf8')).split('\n');
  return (JSON.parse(text) as { format: number }).format;
}

/** Waits until every node holds the partitions that it should hold, and the new one holds some. */
async function settled(client: Awaited<ReturnType<typeof connect>>): Promise<void> {
  await eventually(
    async () => {
      const { members } = await client.cluster.members();
      const nodes = members.flatMap((member) => (member.role === 'node' ? [member] : []));
      for (const node of nodes) expect(node).toMatchObject({ alive: true, partitionsHeld: node.partitionsWanted });
      expect(nodes.find(({ name }) => name === 'd')?.partitionsHeld).toBeGreaterThan(0);
    },
    { withinMs: 60_000 },
  );
}

/** Two proxies that keep their ports when they are replaced. */
class Proxies implements AsyncDisposable {
  readonly #cluster: TestCluster;
  #running: RunningProxy[] = [];

  constructor(cluster: TestCluster) {
    this.#cluster = cluster;
  }

  get endpoints(): string[] {
    return this.#running.map(({ endpoint }) => endpoint);
  }

  async start(cli: string): Promise<void> {
    for (let count = 0; count < 2; count++) this.#running.push(await startProxy(this.#cluster.endpoints, [], cli));
  }

  /** Replaces one after the other by the release with this command line. Calls `goOn` after each. */
  async replace(cli: string | undefined, goOn: () => Promise<void>): Promise<void> {
    for (const [index, proxy] of this.#running.entries()) {
      expect((await proxy.process.kill('SIGTERM')).code).toBe(0);
      const port = proxy.endpoint.split(':')[1];
      this.#running[index] = await startProxy(this.#cluster.endpoints, [`--grpc-port=${port}`], cli);
      await goOn();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const proxy of this.#running) await proxy[Symbol.asyncDispose]();
  }
}
