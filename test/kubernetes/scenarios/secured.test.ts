import { X509Certificate } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from '@taskmaster/client';
import { TestAuthority } from '@taskmaster/server/testing/certificates';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/eventually.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../../support/temporary-directory.ts';
import { ChartCluster, NAME } from './support/chart-cluster.ts';
import { expectNoFailures } from './support/pod-load.ts';
import { skipped, whyNoKubernetes } from './support/requirements.ts';

const problem = await whyNoKubernetes();
const CERTIFICATE = `${NAME}-tls`;

describe.skipIf(problem !== undefined)(`a cluster with TLS and rules of access${skipped(problem)}`, () => {
  let cluster: ChartCluster;
  let dir: TemporaryDirectory;
  let name: string;
  let token: string;

  beforeAll(async () => {
    dir = await temporaryDirectory();
    cluster = await ChartCluster.start();
    await cluster.install('--set=tls.enabled=true,auth.enabled=true');
    await cluster.rolledOut();
    const certificate = new X509Certificate(await cluster.secret(CERTIFICATE, 'tls.crt'));
    name = certificate.subject.replace('CN=', '');
    token = await cluster.secret(`${NAME}-access`, 'token');
    await writeFile(caFile(), await cluster.secret(CERTIFICATE, 'ca.crt'));
  });
  afterAll(async () => {
    await cluster?.[Symbol.asyncDispose]();
    await dir?.[Symbol.asyncDispose]();
    expect(cluster?.kubelet.problems).toEqual([]);
  });

  const caFile = (): string => join(dir.path, 'ca.crt');
  const tls = () => ({ caFile: caFile(), serverName: name });

  test('passes its own test, and an operator in a pod needs no flags', async () => {
    expect(await cluster.helm('test', 'tm', '--timeout=120s')).toContain('Succeeded');
    expect(await cluster.kubelet.exec(`${NAME}-0`, ['taskmaster', 'members'])).toContain(`${NAME}-2`);
  });

  test('serves callers with a token, and no others', async () => {
    const endpoints = await cluster.reachClients();
    await using operator = await connect({ endpoints, tls: tls(), token });
    await operator.queue('q').enqueue('x');
    await using stranger = await connect({ endpoints, tls: tls(), retry: { maxAttempts: 1 } });
    await expect(stranger.queue('q').enqueue('x')).rejects.toMatchObject({ reason: 'UNAUTHENTICATED' });
  });

  test('gets other certificates by another Secret: no call fails', async () => {
    const next = await TestAuthority.create();
    const former = await cluster.secret(CERTIFICATE, 'ca.crt');
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
    const env = { TASKMASTER_TLS_CA: caFile(), TASKMASTER_TLS_SERVER_NAME: name, TASKMASTER_TOKEN: token };
    const report = await cluster.underLoad(
      'other certificates and another CA',
      async (load) => {
        const both = `${former}\n${next.pem}`;
        await writeFile(caFile(), both);
        await replace({ 'ca.crt': both });
        await load.goOn();
        const { cert, key } = await next.sign({ name, dns: [name, 'localhost'] });
        await replace({ 'tls.crt': cert, 'tls.key': key });
        await shown(next.pem);
        await load.goOn();
        await replace({ 'ca.crt': next.pem });
        await load.goOn();
      },
      env,
    );
    expectNoFailures(report);
  });
});
