import { writeFile } from 'node:fs/promises';
import { connect } from '@taskmaster/client';
import { TestAuthority } from '@taskmaster/server/testing/certificates';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/eventually.ts';
import { ChartCluster, NAME } from './support/chart-cluster.ts';
import { expectNoFailures } from './support/pod-load.ts';
import { skipped, whyNoKubernetes } from './support/requirements.ts';

const problem = await whyNoKubernetes();
const CERTIFICATE = `${NAME}-tls`;
const QUOTA = ['auth.groups[0].groups={small}', 'auth.groups[0].limits.tasks=1'];

describe.skipIf(problem !== undefined)(`a cluster with TLS and rules of access${skipped(problem)}`, () => {
  let cluster: ChartCluster;

  beforeAll(async () => {
    cluster = await ChartCluster.start();
    await cluster.install(...QUOTA.map((value) => `--set=${value}`));
    await cluster.rolledOut();
  });
  afterAll(async () => {
    await cluster?.[Symbol.asyncDispose]();
    expect(cluster?.kubelet.problems).toEqual([]);
  });

  test('needs no flags from an operator in a pod', async () => {
    expect(await cluster.kubelet.exec(`${NAME}-0`, ['taskmaster', 'members'])).toContain(`${NAME}-2`);
    expect(await cluster.kubelet.exec(`${NAME}-0`, ['taskmaster', 'whoami'])).toMatch(/principal +operator/);
  });

  test('serves callers with a token, within their quotas, and no others', async () => {
    const endpoints = await cluster.reachClients();
    const { tls, token } = await cluster.credentials();
    await using operator = await connect({ endpoints, tls, token, retry: { maxAttempts: 1 } });
    await operator.queue('q').enqueue('x');
    await operator.queue('small#q').enqueue('x');
    await expect(operator.queue('small#q').enqueue('y')).rejects.toMatchObject({ metadata: { quota: 'tasks' } });
    await using stranger = await connect({ endpoints, tls, retry: { maxAttempts: 1 } });
    await expect(stranger.queue('q').enqueue('x')).rejects.toMatchObject({ reason: 'UNAUTHENTICATED' });
    await using plain = await connect({ endpoints, insecure: true, token, retry: { maxAttempts: 1 } });
    await expect(plain.queue('q').enqueue('x')).rejects.toMatchObject({ reason: 'TLS_REQUIRED' });
  });

  test('gets other certificates by another Secret: no call fails', async () => {
    const next = await TestAuthority.create();
    const former = await cluster.secret(CERTIFICATE, 'ca.crt');
    const { tls, token } = await cluster.credentials();
    const { caFile = '', serverName: name = '' } = tls ?? {};
    const replace = async (files: Readonly<Record<string, string>>): Promise<void> => {
      const data = Object.entries(files).map(([key, text]) => [key, Buffer.from(text).toString('base64')]);
      const patch = JSON.stringify({ data: Object.fromEntries(data) });
      await cluster.kubectl('patch', 'secret', CERTIFICATE, `--patch=${patch}`);
      await cluster.kubelet.refreshVolumes();
    };
    const shown = async (ca: string): Promise<void> => {
      const endpoints = await cluster.reachClients();
      const only = { ca: Buffer.from(ca), serverName: name };
      await eventually(async () => {
        await using client = await connect({ endpoints, tls: only, token, connectTimeout: '1s' });
        await client.queue('q').stats();
      });
    };
    const report = await cluster.underLoad('other certificates and another CA', async (load) => {
      const both = `${former}\n${next.pem}`;
      await writeFile(caFile, both);
      await replace({ 'ca.crt': both });
      await load.goOn();
      const { cert, key } = await next.sign({ name, dns: [name, 'localhost'] });
      await replace({ 'tls.crt': cert, 'tls.key': key });
      await shown(next.pem);
      await load.goOn();
      await replace({ 'ca.crt': next.pem });
      await load.goOn();
    });
    expectNoFailures(report);
  });
});
