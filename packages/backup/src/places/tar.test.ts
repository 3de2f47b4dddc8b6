import { PassThrough, Readable, Writable } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { createBackup } from '../create/create-backup.ts';
import { MANIFEST } from '../format/manifest.ts';
import { type BackupEvent, readBackup } from '../read/read-backup.ts';
import { BrokenStreamError, FakePartitions, partitionsOf } from '../testing/fake-partitions.ts';
import { TarSource, TarTarget } from './tar.ts';

const retry = { backoffMs: { initial: 1, max: 1 }, giveUpAfterMs: 10, maxBroken: 5 };

function cluster(): FakePartitions {
  const source = new FakePartitions(3);
  for (let pid = 0; pid < 5; pid++) source.add(1, `b${pid}`);
  source.add(2, 'c', Buffer.alloc(300_000, 'x'));
  return source;
}

async function backUp(source: FakePartitions, out: Writable): Promise<void> {
  await using target = new TarTarget(out);
  const { signal } = new AbortController();
  const options = { concurrency: 4, maxBytesPerSecond: 0, partBytes: 1, release: '1.0.0' };
  await createBackup({ ...options, source, target, retry, signal });
}

async function archiveOf(source: FakePartitions): Promise<Buffer> {
  const chunks: Buffer[] = [];
  const write = (chunk: Buffer, _: string, done: () => void) => {
    chunks.push(chunk);
    setImmediate(done);
  };
  await backUp(source, new Writable({ write, highWaterMark: 1000 }));
  return Buffer.concat(chunks);
}

async function contentOf(archive: Buffer): Promise<(readonly string[])[]> {
  await using source = new TarSource(Readable.from([archive.subarray(0, 700), archive.subarray(700)]));
  const events: BackupEvent[] = [];
  await readBackup(source, (event) => void events.push(event));
  return partitionsOf(events);
}

/** Entries of an archive: the bytes of each, header and padding included. */
function entriesOf(archive: Buffer): { name: string; bytes: Buffer }[] {
  const entries = [];
  for (let at = 0; archive[at] !== 0; ) {
    const name = archive
      .subarray(at, at + 100)
      .toString()
      .replace(/\0.*/s, '');
    const size = Number.parseInt(archive.subarray(at + 124, at + 136).toString(), 8);
    const end = at + 512 + Math.ceil(size / 512) * 512;
    entries.push({ name, bytes: archive.subarray(at, end) });
    at = end;
  }
  return entries;
}

const archiveWith = (entries: readonly { bytes: Buffer }[]): Buffer =>
  Buffer.concat([...entries.map(({ bytes }) => bytes), Buffer.alloc(1024)]);

describe('a backup as a tar stream', () => {
  test('is read as it was written, in any order of manifest and parts', async () => {
    const source = cluster();
    const archive = await archiveOf(source);
    expect(await contentOf(archive)).toEqual(source.content);
    const entries = entriesOf(archive);
    expect(entries.at(-1)?.name).toBe(MANIFEST);
    const manifestFirst = archiveWith([...entries.slice(-1), ...entries.slice(0, -1)]);
    expect(await contentOf(manifestFirst)).toEqual(source.content);
  });

  test('may begin a partition again', async () => {
    const source = cluster();
    let broken = 0;
    source.onMessage = (partition, index) => {
      if (partition === 1 && index === 3 && broken++ < 2) throw new BrokenStreamError();
    };
    const archive = await archiveOf(source);
    expect(entriesOf(archive).filter(({ name }) => name === 'partition-00001-00000').length).toBe(3);
    expect(await contentOf(archive)).toEqual(source.content);
  });

  test('is refused without one of its entries', async () => {
    const entries = entriesOf(await archiveOf(cluster()));
    for (const [index, { name }] of entries.entries()) {
      const without = archiveWith(entries.toSpliced(index, 1));
      await expect(contentOf(without), name).rejects.toMatchObject({ reason: 'BACKUP_INCOMPLETE' });
    }
  });

  test('is refused if it is truncated anywhere, or is not a tar stream', async () => {
    const archive = await archiveOf(cluster());
    for (let length = 0; length < archive.byteLength - 1024; length += 211) {
      await expect(contentOf(archive.subarray(0, length)), `${length}`).rejects.toMatchObject({
        reason: expect.stringMatching(/BACKUP_DAMAGED|BACKUP_INCOMPLETE/),
      });
    }
    await expect(contentOf(Buffer.alloc(5000, 'no tar'))).rejects.toMatchObject({ reason: 'BACKUP_DAMAGED' });
  });

  test('is refused with a flipped bit in any part or in the manifest', async () => {
    const archive = await archiveOf(cluster());
    let at = 0;
    for (const { name, bytes } of entriesOf(archive)) {
      const size = Number.parseInt(bytes.subarray(124, 136).toString(), 8);
      for (const place of [512, 512 + 5, 512 + 9, 512 + (size >> 1), 512 + size - 2]) {
        const flipped = Buffer.from(archive);
        flipped[at + place] = (flipped[at + place] ?? 0) ^ 4;
        await expect(contentOf(flipped), `${name} at ${place}`).rejects.toMatchObject({
          reason: expect.stringMatching(/BACKUP_DAMAGED|BACKUP_TOO_NEW|NOT_A_BACKUP/),
        });
      }
      at += bytes.byteLength;
    }
  });

  test('waits for a slow reader', async () => {
    const source = cluster();
    for (let pid = 0; pid < 40; pid++)
      source.add(0, `a${pid}`, Buffer.from(crypto.getRandomValues(new Uint8Array(60_000))));
    let waiting: (() => void) | undefined;
    const out = new Writable({
      write: (_chunk, _encoding, done) => {
        waiting = done;
      },
      highWaterMark: 1000,
    });
    const done = backUp(source, out);
    for (let turns = 0; turns < 300; turns++) await turn();
    const asked = source.asked.length;
    for (let turns = 0; turns < 100; turns++) await turn();
    expect(source.asked.length).toBe(asked);
    const goOn = setInterval(() => {
      const taken = waiting;
      waiting = undefined;
      taken?.();
    }, 0);
    await done;
    clearInterval(goOn);
  });

  test.each([
    ['ENOSPC', 'BACKUP_PLACE_FULL'],
    ['EPIPE', 'BACKUP_PLACE_FAILED'],
  ])('ends with a clear error when the reader fails with %s', async (code, reason) => {
    const out = new Writable({
      write: (_chunk, _encoding, done) => done(Object.assign(new Error('failed'), { code })),
    });
    await expect(backUp(cluster(), out)).rejects.toMatchObject({ reason });
  });

  test('that ends early is truncated', async () => {
    const source = cluster();
    source.onMessage = (partition) => {
      if (partition === 2) throw new Error('unexpected');
    };
    const out = new PassThrough({ highWaterMark: 10_000_000 });
    await expect(backUp(source, out)).rejects.toThrow('unexpected');
    out.end();
    const archive = Buffer.concat(await out.toArray());
    expect(archive.byteLength).toBeGreaterThan(1000);
    await expect(contentOf(archive)).rejects.toMatchObject({ reason: 'BACKUP_DAMAGED' });
  });

  test('takes no base', async () => {
    const { signal } = new AbortController();
    const target = new TarTarget(new PassThrough());
    const base = { title: 'base' } as never;
    const options = { concurrency: 1, maxBytesPerSecond: 0, release: '1', source: cluster(), target, retry, signal };
    await expect(createBackup({ ...options, base })).rejects.toMatchObject({ reason: 'UNSUPPORTED' });
  });

  test('that goes on behind its end is refused', async () => {
    const archive = await archiveOf(cluster());
    let sent = 0;
    async function* endless(): AsyncGenerator<Buffer> {
      yield archive;
      for (; sent < 2 ** 30; sent += 65_536) yield Buffer.alloc(65_536);
    }
    await using source = new TarSource(Readable.from(endless()));
    await expect(readBackup(source, () => {})).rejects.toMatchObject({ reason: 'BACKUP_DAMAGED' });
    expect(sent).toBeLessThan(64 * 2 ** 20);
  });
});
