import { afterEach, expect, test, vi } from 'vitest';
import { failure, S3Server } from '../testing/s3-server.ts';
import { storeContract } from '../testing/store-contract.ts';
import { openStore } from './open-place.ts';
import { S3Store } from './s3.ts';

afterEach(() => vi.unstubAllEnvs());

/** The client of AWS reads the environment of the process. */
async function bucket(): Promise<S3Server> {
  const server = await S3Server.start('backups');
  for (const name of ['AWS_REGION', 'AWS_DEFAULT_REGION', 'AWS_PROFILE']) vi.stubEnv(name, undefined);
  for (const [name, value] of Object.entries(server.env)) vi.stubEnv(name, value);
  return server;
}

async function places() {
  const server = await bucket();
  const stores: S3Store[] = [];
  return {
    at: (name: string) => {
      const store = new S3Store({ bucket: 'backups', prefix: `daily/${name} ü+&/` });
      stores.push(store);
      return store;
    },
    [Symbol.asyncDispose]: async () => {
      for (const store of stores) await store[Symbol.asyncDispose]();
      expect(server.statuses).not.toContain(403);
      await server[Symbol.asyncDispose]();
    },
  };
}

storeContract('a bucket', places);

test('keys begin with the prefix of the address', async () => {
  await using server = await bucket();
  for (const [address, key] of [
    ['s3://backups/a/b', 'a/b/x'],
    ['s3://backups/c/', 'c/x'],
    ['s3://backups', 'x'],
  ] as const) {
    await using store = await openStore(address);
    await store.write('x', Buffer.from('x'));
    expect(server.objects.has(key)).toBe(true);
  }
});

test('a wrong secret, a missing bucket and a full store have different errors', async () => {
  await using server = await bucket();
  await using missing = await openStore('s3://other/a');
  await expect(missing.list()).rejects.toMatchObject({
    reason: 'BACKUP_PLACE_FAILED',
    message: expect.stringContaining('cannot list the objects in s3://other/a/: NoSuchBucket'),
  });
  await using full = await openStore('s3://backups/a');
  server.intercept = (method) => (method === 'PUT' ? failure(507, 'XMinioStorageFull') : undefined);
  await expect(full.write('x', Buffer.from('x'))).rejects.toMatchObject({ reason: 'BACKUP_PLACE_FULL' });
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'wrong');
  await using stranger = await openStore('s3://backups/a');
  await expect(stranger.read('x')).rejects.toMatchObject({
    reason: 'BACKUP_PLACE_FAILED',
    message: expect.stringContaining('SignatureDoesNotMatch'),
  });
});

test('other addresses are refused', async () => {
  for (const address of ['s3://', 'http://bucket/x', 's3:///x']) {
    await expect(openStore(address)).rejects.toMatchObject({ reason: 'UNSUPPORTED' });
  }
});
