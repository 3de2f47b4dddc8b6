import { connect } from '@taskmaster/client';
import { methods, QueueOrder } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { TestCluster } from '../support/processes/start-cluster.ts';
import { startProxy } from '../support/processes/start-proxy.ts';

interface Overview {
  readonly servedBy: { readonly role: string };
  readonly members: readonly { readonly name: string; readonly alive: boolean }[];
  readonly unreachable: readonly { readonly name: string }[];
  readonly totals: { readonly queues: number };
  readonly attention: readonly { readonly kind: string; readonly subject: string; readonly sinceIsExact: boolean }[];
}

const overviewAt = async (http: string): Promise<Overview> =>
  (await (await fetch(`http://${http}/api/overview`)).json()) as Overview;

async function queuesAt(http: string) {
  const request = { filter: undefined, limit: 0, pageToken: '', order: QueueOrder.QUEUE_ORDER_TROUBLE };
  const reply = await fetch(`http://${http}/rpc/ListQueues`, {
    method: 'POST',
    headers: { 'content-type': 'application/proto', 'x-taskmaster-console': '1' },
    body: new Uint8Array(methods.listQueues.requestSerialize(request)),
  });
  return methods.listQueues.responseDeserialize(Buffer.from(await reply.arrayBuffer()));
}

test('every node and proxy shows the whole cluster, and names the member that died', { timeout: 60_000 }, async () => {
  await using cluster = await TestCluster.start({ nodes: 3 });
  await using proxy = await startProxy(cluster.endpoints);
  const groups = Array.from({ length: 24 }, (_, index) => `group-${index}`);
  {
    await using client = await connect({ endpoints: cluster.endpoints });
    await eventually(async () => {
      for (const group of groups) await client.queue(`${group}#work`).enqueue('x', { pid: 'a' });
    });
  }
  const http = (name: string): string => `127.0.0.1:${cluster.node(name).httpPort}`;
  for (const address of [http('a'), http('b'), proxy.http]) {
    await eventually(async () => {
      const { totals, members, unreachable } = await overviewAt(address);
      expect([totals.queues, unreachable]).toEqual([groups.length, []]);
      expect(members.map(({ name }) => name)).toEqual(expect.arrayContaining(['a', 'b', 'c']));
      const { queues, unreachable: silent } = await queuesAt(address);
      expect([queues.length, silent]).toEqual([groups.length, []]);
    });
  }

  await cluster.node('c').kill();
  for (const address of [http('a'), http('b'), proxy.http]) {
    await eventually(async () => {
      const { members, unreachable, attention, totals } = await overviewAt(address);
      expect(members.find(({ name }) => name === 'c')).toMatchObject({ alive: false });
      expect(unreachable).toMatchObject([{ name: 'c' }]);
      expect(attention).toContainEqual(
        expect.objectContaining({ kind: 'member-down', subject: 'c', sinceIsExact: true }),
      );
      expect(attention).toContainEqual(expect.objectContaining({ kind: 'partition-unserved', sinceIsExact: true }));
      expect(totals.queues).toBeLessThan(groups.length);
      const { queues, unreachable: silent } = await queuesAt(address);
      expect([queues.length, silent.map(({ name }) => name)]).toEqual([totals.queues, ['c']]);
    });
  }
});
