import { readFileSync, writeFileSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import { join } from 'node:path';
import { credentials } from '@grpc/grpc-js';
import { connect } from '@taskmaster/client';
import { ExternalScalerClient } from '@taskmaster/proto';
import { errorInfoOf } from '@taskmaster/server/testing';
import { type CertificateFiles, certificateFiles, TestAuthority } from '@taskmaster/server/testing/certificates';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';
import { type RunningProxy, startProxy } from '../support/processes/start-proxy.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/* Callers that have no token, but a client certificate: services, KEDA, and readers of pages. */

const NAME = 'members.example';
const read = { groups: ['shop'], allow: ['read'] };
const rules = {
  principals: [
    { name: 'shop', certificates: ['shop.example'], rights: [read, { groups: ['shop'], allow: ['enqueue', 'lease'] }] },
    { name: 'keda', certificates: ['keda.example'], rights: [read] },
  ],
};
const scaled = { name: 'x', namespace: 'x', scalerMetadata: { group: 'shop', queue: 'mail', targetTasks: '5' } };

const opened = new AsyncDisposableStack();
let shop: CertificateFiles;
let keda: CertificateFiles;
let stranger: CertificateFiles;
let node: RunningNode;
let proxy: RunningProxy;
let audit: string;
beforeAll(async () => {
  const authority = await TestAuthority.create();
  const filesFor = async (name: string, dns: string[]) =>
    opened.use(await certificateFiles(await authority.sign({ name, dns }), authority.pem));
  const members = await filesFor('member', [NAME]);
  shop = await filesFor('shop', ['shop.example']);
  keda = await filesFor('keda', ['keda.example']);
  stranger = await filesFor('stranger', ['stranger.example']);
  const { path } = opened.use(await temporaryDirectory());
  const [accessFile, keyFile] = [join(path, 'access.yaml'), join(path, 'key')];
  audit = join(path, 'audit.log');
  writeFileSync(accessFile, JSON.stringify(rules), { mode: 0o600 });
  writeFileSync(keyFile, 'a key for this test only', { mode: 0o600 });
  const flags = [
    `--tls-cert-file=${members.certFile}`,
    `--tls-key-file=${members.keyFile}`,
    `--tls-ca-file=${members.caFile}`,
    `--tls-peer-name=${NAME}`,
    `--access-file=${accessFile}`,
    `--cluster-key-file=${keyFile}`,
  ];
  node = opened.use(await startNode({ flags: ['--bootstrap', '--gossip-port=0', `--audit-file=${audit}`, ...flags] }));
  proxy = opened.use(await startProxy([node.endpoint], flags));
});
afterAll(() => opened.disposeAsync());

const tlsOf = ({ caFile, certFile, keyFile }: CertificateFiles) => ({ caFile, certFile, keyFile });

/** The status of a page, asked for with the certificate, if any. */
async function statusOf(path: string, files?: CertificateFiles): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  const own = files && { cert: readFileSync(files.certFile), key: readFileSync(files.keyFile) };
  const asked = httpsRequest(
    {
      host: '127.0.0.1',
      port: node.httpPort,
      path,
      ca: readFileSync(shop.caFile),
      servername: NAME,
      agent: false,
      ...own,
    },
    (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    },
  );
  asked.on('error', reject).end();
  return promise;
}

describe('a client certificate', () => {
  test('is the credential of a service, at nodes and proxies', async () => {
    for (const endpoints of [node.endpoint, proxy.endpoint]) {
      await using client = await connect({ endpoints, tls: { ...tlsOf(shop), serverName: NAME } });
      expect(await client.whoAmI()).toMatchObject({ principal: 'shop', credential: 'certificate' });
      await client.queue('shop#mail').enqueue('x');
      await expect(client.queue('other#mail').enqueue('x')).rejects.toMatchObject({ name: 'PermissionDeniedError' });
    }
  });

  test('is shown by the thread that renews leases while a handler blocks its own thread', async () => {
    await using client = await connect({ endpoints: proxy.endpoint, tls: { ...tlsOf(shop), serverName: NAME } });
    const queue = client.queue<string>('shop#long');
    await queue.enqueue('x');
    const handled = Promise.withResolvers<number>();
    await using worker = client.worker(
      queue,
      async (task) => {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000);
        handled.resolve(task.attempt);
      },
      { leaseDuration: '1s' },
    );
    worker.start();
    expect(await handled.promise).toBe(1);
    await worker.stop();
    expect(await queue.stats()).toMatchObject({ available: 0, leased: 0 });
  });

  test('lets KEDA read at a proxy, and no one without it', async () => {
    const activity = async (files: CertificateFiles | undefined): Promise<boolean | string> => {
      const ca = readFileSync(keda.caFile);
      const secure = files
        ? credentials.createSsl(ca, readFileSync(files.keyFile), readFileSync(files.certFile))
        : credentials.createSsl(ca);
      const scaler = new ExternalScalerClient(proxy.endpoint, secure, { 'grpc.ssl_target_name_override': NAME });
      const { promise, resolve } = Promise.withResolvers<boolean | string>();
      scaler.isActive(scaled, (error, reply) => resolve(error === null ? reply.result : errorInfoOf(error).reason));
      return promise.finally(() => scaler.close());
    };
    expect(await activity(keda)).toBe(true);
    expect(await activity(stranger)).toBe('UNAUTHENTICATED');
    expect(await activity(undefined)).toBe('UNAUTHENTICATED');
  });

  test('is the credential of a reader of pages, whom the audit log names', async () => {
    expect(await statusOf('/api/queues?group=shop', shop)).toBe(200);
    expect(await statusOf('/api/queues?group=other', shop)).toBe(403);
    expect(await statusOf('/api/queues?group=shop', stranger)).toBe(401);
    expect(await statusOf('/api/queues?group=shop')).toBe(401);
    await eventually(() => {
      const lines = readFileSync(audit, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
      expect(lines.filter(({ action }) => action === 'GET /api/queues')).toMatchObject([
        { result: 'PERMISSION_DENIED', principal: 'shop' },
        { result: 'UNAUTHENTICATED' },
        { result: 'UNAUTHENTICATED' },
      ]);
    });
  });
});
