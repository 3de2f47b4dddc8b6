import type { ServerResponse } from 'node:http';
import { afterEach, describe, expect, test, vi } from 'vitest';
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
  await expect(stranger.read('x', 100)).rejects.toMatchObject({
    reason: 'BACKUP_PLACE_FAILED',
    message: expect.stringContaining('SignatureDoesNotMatch'),
  });
});

test('other addresses are refused', async () => {
  for (const address of ['s3://', 'http://bucket/x', 's3:///x']) {
    await expect(openStore(address)).rejects.toMatchObject({ reason: 'UNSUPPORTED' });
  }
});

describe('a server that does not end', () => {
  const limits = { stallMs: 200, totalMs: 600, bytesPerMs: 1_000_000 };

  /** A store of a server that answers each request in this way. Counts the bytes that it could send. */
  async function hostile(answer: (response: ServerResponse, sent: { bytes: number }) => void) {
    const server = await bucket();
    const sent = { bytes: 0 };
    let requests = 0;
    server.take = (_request, response) => {
      requests++;
      answer(response, sent);
      return true;
    };
    const store = new S3Store({ bucket: 'backups', prefix: 'a/' }, { limits });
    return {
      store,
      sent,
      requests: () => requests,
      [Symbol.asyncDispose]: async () => {
        await store[Symbol.asyncDispose]();
        await server[Symbol.asyncDispose]();
      },
    };
  }

  const endless = (response: ServerResponse, sent: { bytes: number }): void => {
    const chunk = Buffer.alloc(64 * 1024, '<a>');
    const go = (): void => {
      do sent.bytes += chunk.byteLength;
      while (!response.destroyed && response.write(chunk));
    };
    response.on('drain', go);
    go();
  };

  test('is read up to the limit of an object, of a listing and of an error', async () => {
    for (const status of [200, 404]) {
      await using world = await hostile((response, sent) => endless(response.writeHead(status), sent));
      const calls = [() => world.store.read('x', 1000), () => world.store.list(), () => world.store.remove('x')];
      for (const call of calls) {
        // A deletion that has worked has a body that is not read.
        await call().catch((error) => expect(error.reason).toMatch(/BACKUP_DAMAGED|BACKUP_PLACE_FAILED/));
      }
      await expect(world.store.read('x', 1000)).rejects.toMatchObject({ name: 'BackupError' });
      await expect(world.store.list()).rejects.toMatchObject({ reason: 'BACKUP_PLACE_FAILED' });
      expect(world.sent.bytes).toBeGreaterThan(1000);
      expect(world.sent.bytes).toBeLessThan(300 * 1024 * 1024);
    }
  });

  test('is given up when it is silent, before and after its head', async () => {
    for (const answer of [() => {}, (response: ServerResponse) => response.writeHead(200).write('x')]) {
      await using world = await hostile(answer);
      for (const call of [() => world.store.read('x', 1000), () => world.store.list()]) {
        await expect(call()).rejects.toMatchObject({ reason: 'BACKUP_PLACE_FAILED' });
      }
      expect(world.requests()).toBeGreaterThanOrEqual(2);
    }
  });

  test('is given up when it sends a byte now and then', async () => {
    const timers: NodeJS.Timeout[] = [];
    await using world = await hostile((response) => {
      response.writeHead(200);
      timers.push(setInterval(() => response.write('x'), 20));
    });
    await expect(world.store.read('x', 1000)).rejects.toMatchObject({
      reason: 'BACKUP_PLACE_FAILED',
      message: expect.stringContaining('took longer than'),
    });
    for (const timer of timers) clearInterval(timer);
  });

  test('is asked for no more pages of a listing than a place may have', async () => {
    const name = 'k'.repeat(900);
    const keys = Array.from({ length: 1000 }, (_, index) => `<Contents><Key>a/${name}${index}</Key></Contents>`).join(
      '',
    );
    let page = 0;
    await using world = await hostile((response) => {
      const next = `<NextContinuationToken>${page++}</NextContinuationToken>`;
      response.end(`<ListBucketResult>${page % 2 === 0 ? keys : ''}${next}</ListBucketResult>`);
    });
    await expect(world.store.list()).rejects.toMatchObject({ reason: 'BACKUP_PLACE_FAILED' });
    expect(page).toBeGreaterThan(1);
  });
});
