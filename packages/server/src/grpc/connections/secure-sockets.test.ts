import { credentials, Metadata, status as Status } from '@grpc/grpc-js';
import { keptLog } from '@taskmaster/engine/testing';
import { HealthClient, HealthCheckResponse_ServingStatus as Serving } from '@taskmaster/proto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CertificateFiles, certificateFiles, TestAuthority } from '../../testing/tls/certificates.ts';
import { Tls } from '../../tls/tls.ts';
import type { TlsSettings } from '../../tls/tls-files.ts';
import { secureChannels } from '../channels/channel-credentials.ts';
import { errorInfoOf } from '../testing/grpc-client.ts';
import { noService, startServer } from '../testing/start-server.ts';

let authority: TestAuthority;
let files: CertificateFiles;
beforeAll(async () => {
  authority = await TestAuthority.create();
  files = await certificateFiles(await authority.sign({ name: 'node', dns: ['members'] }), authority.pem);
});
afterAll(() => files[Symbol.asyncDispose]());

const settingsOf = (
  { certFile, keyFile, caFile }: CertificateFiles,
  change: Partial<TlsSettings> = {},
): TlsSettings => ({
  certFile,
  keyFile,
  caFile,
  clientCertificates: 'optional',
  minVersion: '1.3',
  peerName: '',
  ...change,
});

async function start(change: Partial<TlsSettings> = {}) {
  const tls = new Tls(settingsOf(files, change), keptLog(), 5);
  const server = await startServer(noService, { tls });
  return {
    port: server.port,
    server: server.server,
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      tls[Symbol.dispose]();
    },
  };
}

const bytes = (text: string): Buffer => Buffer.from(text);
const secure = (ca: string, own?: { readonly key: string; readonly cert: string }) =>
  credentials.createSsl(bytes(ca), own && bytes(own.key), own && bytes(own.cert));

/** The status of a health check, or the error of the call. */
function check(port: number, channel = credentials.createInsecure(), options = {}): Promise<unknown> {
  const client = new HealthClient(`127.0.0.1:${port}`, channel, options);
  return new Promise((resolve) => {
    client.check({ service: '' }, new Metadata(), { deadline: Date.now() + 5_000 }, (error, reply) => {
      client.close();
      resolve(error ?? reply.status);
    });
  });
}

describe('a server that speaks TLS', () => {
  test('serves clients that trust its authority', async () => {
    await using server = await start();
    expect(await check(server.port, secure(authority.pem))).toBe(Serving.SERVING);
  });

  test('is not trusted by clients that trust another authority', async () => {
    await using server = await start();
    const other = await TestAuthority.create();
    expect(await check(server.port, secure(other.pem))).toMatchObject({ code: Status.UNAVAILABLE });
  });

  test('tells a client that speaks plain text', async () => {
    await using server = await start();
    const error = await check(server.port);
    expect(error).toMatchObject({ code: Status.FAILED_PRECONDITION, details: expect.stringContaining('TLS') });
    expect(errorInfoOf(error as never)).toMatchObject({ reason: 'TLS_REQUIRED' });
  });

  test('can require certificates that its authority has signed', async () => {
    await using server = await start({ clientCertificates: 'required' });
    const other = await TestAuthority.create();
    expect(await check(server.port, secure(authority.pem))).toMatchObject({ code: Status.UNAVAILABLE });
    const forged = await other.sign({ name: 'a client' });
    expect(await check(server.port, secure(authority.pem, forged))).toMatchObject({ code: Status.UNAVAILABLE });
    const own = await authority.sign({ name: 'a client' });
    expect(await check(server.port, secure(authority.pem, own))).toBe(Serving.SERVING);
  });

  test('members call each other with their certificates, by the name that all of them have', async () => {
    await using server = await start({ clientCertificates: 'required' });
    for (const [peerName, expected] of [
      ['members', Serving.SERVING],
      ['others', { code: Status.UNAVAILABLE }],
    ] as const) {
      using tls = new Tls(settingsOf(files, { peerName }), keptLog());
      const { credentials: channel, optionsOf } = secureChannels(tls);
      const found = await check(server.port, channel, optionsOf(`127.0.0.1:${server.port}`));
      if (typeof expected === 'object') expect(found).toMatchObject(expected);
      else expect(found).toBe(expected);
    }
  });

  test('shows a new certificate when its files change', async () => {
    await using server = await start();
    const next = await TestAuthority.create();
    await files.write({ ...(await next.sign({ name: 'node', dns: ['members'] })), ca: next.pem });
    await expect.poll(() => check(server.port, secure(next.pem))).toBe(Serving.SERVING);
    expect(await check(server.port, secure(authority.pem))).toMatchObject({ code: Status.UNAVAILABLE });
  });
});
