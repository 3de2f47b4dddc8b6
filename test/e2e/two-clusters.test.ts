import { connect, type TaskMasterClient } from '@taskmaster/client';
import { type RunningNode, startNode } from '@taskmaster/node';
import { freePort } from '@taskmaster/server/testing';
import { afterEach, describe, expect, test } from 'vitest';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const PIDS = Array.from({ length: 12 }, (_, index) => `task-${index}`);

let opened = new AsyncDisposableStack();
afterEach(async () => {
  await opened.disposeAsync();
  opened = new AsyncDisposableStack();
});

/** A node with an empty directory, alone or as the first one of a cluster. */
async function open(how: { readonly bootstrap?: boolean; readonly grpcPort?: number } = {}): Promise<RunningNode> {
  const directory = opened.use(await temporaryDirectory());
  const settings = { dataDir: directory.path, grpcPort: 0, httpPort: 0, gossipPort: 0, ...how };
  return opened.use(await startNode({ ...settings, engine: { partitions: 4 } }, { log: SILENT }));
}

const to = async (...given: Parameters<typeof connect>): Promise<TaskMasterClient> =>
  opened.use(await connect(...given));

async function enqueueEach(client: TaskMasterClient): Promise<void> {
  for (const pid of PIDS) await client.queue('mail').enqueue('x', { pid });
}

async function tasksAt({ grpcAddress }: RunningNode): Promise<number> {
  const { available } = await (await to(grpcAddress)).queue('mail').stats();
  return available;
}

describe('a client whose endpoints belong to several clusters', () => {
  test('does not connect, whichever is asked first', async () => {
    const [member, stray] = [await open({ bootstrap: true }), await open()];
    for (const endpoints of [
      [member, stray],
      [stray, member],
    ]) {
      const problem = connect(endpoints.map(({ grpcAddress }) => grpcAddress));
      await expect(problem).rejects.toMatchObject({
        name: 'WrongClusterError',
        reason: 'WRONG_CLUSTER',
        maybeApplied: false,
        message: expect.stringMatching(
          /several clusters: .* is of cluster .*node without a cluster|node without.*of cluster/,
        ),
      });
    }
    await expect(connect([stray.grpcAddress, (await open()).grpcAddress])).rejects.toThrow(/several clusters/);
  });

  test('goes on with the cluster that it names', async () => {
    const [member, stray] = [await open({ bootstrap: true }), await open()];
    const cluster = member.member?.clusterId ?? '';
    const client = await to({ endpoints: [stray.grpcAddress, member.grpcAddress], cluster });
    await enqueueEach(client);
    expect([await tasksAt(member), await tasksAt(stray)]).toEqual([12, 0]);
    const wrong = connect({ endpoints: [stray.grpcAddress], cluster });
    await expect(wrong).rejects.toThrow(`no endpoint belongs to cluster ${cluster}`);
    await expect(connect({ endpoints: member.grpcAddress, cluster: '' })).rejects.toThrow(TypeError);
  });

  test('makes no call while a stray node is at the address of a member that is down', async () => {
    const member = await open({ bootstrap: true });
    const port = await freePort();
    const client = await to([member.grpcAddress, `127.0.0.1:${port}`]);
    await enqueueEach(client);
    const stray = await open({ grpcPort: port });
    const met = (): Promise<unknown> =>
      client
        .queue('mail')
        .stats()
        .then(
          ({ available }) => available,
          (error: Error) => error.name,
        );
    await expect.poll(met, { timeout: 20_000 }).toBe('WrongClusterError');
    expect(await tasksAt(stray)).toBe(0);
    await stray.stop();
    await expect.poll(met, { timeout: 20_000 }).toBe(12);
  });

  test.each(['without a stream', 'with an idle stream'])(
    'asks again when another program answers at an address between two calls (%s)',
    async (how) => {
      const port = await freePort();
      const first = await open({ bootstrap: true, grpcPort: port });
      const cluster = first.member?.clusterId ?? '';
      const client = await to({ endpoints: `127.0.0.1:${port}`, cluster });
      await client.queue('mail').stats();
      if (how === 'with an idle stream') await enqueueEach(client);
      await first.stop();
      const stray = await open({ grpcPort: port });
      const asked = await Promise.allSettled([
        client.queue('mail').stats({ timeout: 3_000 }),
        client.queue('mail').enqueue('x', { timeout: 3_000 }),
      ]);
      expect(asked.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
      expect(await tasksAt(stray)).toBe(0);
    },
  );
});
