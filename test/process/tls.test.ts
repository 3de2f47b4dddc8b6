import { connect } from '@taskmaster/client';
import { type CertificateFiles, certificateFiles, TestAuthority } from '@taskmaster/server/testing/certificates';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { clientCli } from '../support/paths.ts';
import { runProcess } from '../support/processes/child-process.ts';
import { TestCluster } from '../support/processes/start-cluster.ts';
import { type RunningProxy, startProxy } from '../support/processes/start-proxy.ts';
import { MixedLoad } from './mixed-load.ts';
import { verifyLoad } from './verify-load.ts';

const NAME = 'members.example';
const GROUPS = ['a', 'b', 'c', 'd'];

const flagsOf = ({ certFile, keyFile, caFile }: CertificateFiles): string[] => [
  `--tls-cert-file=${certFile}`,
  `--tls-key-file=${keyFile}`,
  `--tls-ca-file=${caFile}`,
  `--tls-peer-name=${NAME}`,
  '--tls-client-certificates=required',
];

describe('a cluster whose members and clients speak TLS', { timeout: 120_000 }, () => {
  let authority: TestAuthority;
  let members: CertificateFiles;
  let users: CertificateFiles;
  let cluster: TestCluster;
  let proxy: RunningProxy;
  beforeAll(async () => {
    authority = await TestAuthority.create();
    members = await certificateFiles(await authority.sign({ name: 'member', dns: [NAME] }), authority.pem);
    users = await certificateFiles(await authority.sign({ name: 'user' }), authority.pem);
    cluster = await TestCluster.start({ nodes: 2, flags: flagsOf(members) });
    proxy = await startProxy(cluster.endpoints, flagsOf(members));
  });
  afterAll(async () => {
    await proxy?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
    await users?.[Symbol.asyncDispose]();
    await members?.[Symbol.asyncDispose]();
  });

  const tls = () => ({ caFile: users.caFile, certFile: users.certFile, keyFile: users.keyFile });
  const connectedTo = (endpoints: string | readonly string[]) => connect({ endpoints, tls: tls() });

  test('serves clients with certificates, at nodes and proxies, for all groups', async () => {
    for (const endpoint of [proxy.endpoint, ...cluster.endpoints]) {
      await using client = await connectedTo(endpoint);
      for (const group of GROUPS) {
        const queue = client.queue<string>(`${group}#q`);
        await queue.enqueue('x');
        const [task] = await queue.lease({ wait: '5s' });
        await task?.complete();
      }
      expect((await client.cluster.members()).members).toHaveLength(3);
    }
  });

  test('tells clients what is wrong', async () => {
    await using plain = await connect({ endpoints: proxy.endpoint, retry: { maxAttempts: 1 } });
    await expect(plain.queue('q').enqueue('x')).rejects.toMatchObject({ reason: 'TLS_REQUIRED' });
    const strangers = await TestAuthority.create();
    const other = { ca: Buffer.from(strangers.pem) };
    const untrusted = connect({ endpoints: proxy.endpoint, tls: other, connectTimeout: '1s' });
    await expect(untrusted).rejects.toThrow(/certificate/);
  });

  test('the command line takes files, as flags and from the environment', async () => {
    const flags = ['--tls-ca', users.caFile, '--tls-cert', users.certFile, '--tls-key', users.keyFile];
    const args = [clientCli, 'members', '--endpoint', proxy.endpoint];
    // No warning either, although the endpoint is an address.
    expect(await runProcess(process.execPath, [...args, ...flags])).toMatchObject({ code: 0, stderr: '' });
    const env = {
      TASKMASTER_TLS_CA: users.caFile,
      TASKMASTER_TLS_CERT: users.certFile,
      TASKMASTER_TLS_KEY: users.keyFile,
    };
    expect(await runProcess(process.execPath, args, { env: { ...process.env, ...env } })).toMatchObject({ code: 0 });
    const plain = await runProcess(process.execPath, args);
    expect(plain).toMatchObject({ code: 1, stderr: expect.stringContaining('TLS') });
  });

  test('shows its pages over TLS only', async () => {
    const answer = await fetch(`http://${proxy.http}/livez`);
    expect(await answer.json()).toMatchObject({ error: { reason: 'TLS_REQUIRED' } });
  });

  test('replaces all certificates and the authority under load, and no call fails', async () => {
    const endpoints = [proxy.endpoint, ...cluster.endpoints];
    const load = await MixedLoad.start({ endpoints, seed: 1, groups: GROUPS, tls: tls(), maxAttempts: 4 });
    const progress = async (): Promise<void> => {
      const enough = load.acknowledged + 100;
      await eventually(() => expect(load.acknowledged).toBeGreaterThan(enough), { withinMs: 60_000 });
    };
    await progress();
    const next = await TestAuthority.create('the next authority');
    const both = `${authority.pem}\n${next.pem}`;
    const reloadsOf = async (): Promise<number> => {
      const logs = [proxy.process, ...['a', 'b'].map((name) => cluster.node(name).process)];
      return Math.min(...logs.map(({ stderr }) => stderr.split('changed certificates are in use').length - 1));
    };
    let reloads = await reloadsOf();
    const replaced = async (change: () => Promise<void>): Promise<void> => {
      await change();
      const wanted = ++reloads;
      await eventually(async () => expect(await reloadsOf()).toBeGreaterThanOrEqual(wanted));
      await progress();
    };
    await replaced(async () => {
      await members.write({ ca: both });
      await users.write({ ca: both });
    });
    await replaced(async () => {
      await members.write(await next.sign({ name: 'member', dns: [NAME] }));
      await users.write(await next.sign({ name: 'user' }));
    });
    await replaced(() => members.write({ ca: next.pem }));
    await load.stop();
    expect(load.failed).toBe(0);
    await using client = await connectedTo(proxy.endpoint);
    const { problem } = await verifyLoad(client, load.history);
    expect(problem).toBe('');
    // Certificates of the former authority do not count any more.
    const former = await authority.sign({ name: 'user' });
    const old = { ca: Buffer.from(both), cert: Buffer.from(former.cert), key: Buffer.from(former.key) };
    const refused = connect({ endpoints: proxy.endpoint, tls: old, connectTimeout: '1s' });
    await expect(refused).rejects.toThrow(/no endpoint can be reached/);
  });
});
