import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, unlinkSync, writeFileSync } from 'node:fs';
import * as files from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DATA_FORMAT } from '@taskmaster/proto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { MANIFEST, PROGRESS, partName } from '../format/manifest.ts';
import { Directory, type Files } from '../places/directory.ts';
import type { BackupStore } from '../places/place.ts';
import { type BackupEvent, readBackup } from '../read/read-backup.ts';
import { BrokenStreamError, FakePartitions, partitionsOf } from '../testing/fake-partitions.ts';
import { type CreatedBackup, type CreateOptions, createBackup } from './create-backup.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'taskmaster-backup-'));
});
afterEach(() => rmSync(root, { recursive: true }));

const at = (name: string, replaced: Partial<Files> = {}): Directory =>
  new Directory(join(root, name), { ...files, ...replaced });

/** Three partitions. Partition 1 has a part for each of its ten tasks. */
function cluster(): FakePartitions {
  const source = new FakePartitions(3);
  source.add(0, 'a');
  for (let pid = 0; pid < 10; pid++) source.add(1, `b${pid}`);
  return source;
}

const retry = { backoffMs: { initial: 1, max: 2 }, giveUpAfterMs: 20, maxBroken: 3 };

function create(
  source: FakePartitions,
  target: BackupStore,
  options: Partial<CreateOptions> = {},
): Promise<CreatedBackup> {
  const { signal } = new AbortController();
  const defaults = { concurrency: 2, maxBytesPerSecond: 0, partBytes: 1, release: '1.0.0' };
  return createBackup({ ...defaults, source, target, retry, signal, ...options });
}

async function contentOf(store: BackupStore): Promise<(readonly string[])[]> {
  const events: BackupEvent[] = [];
  await readBackup(store, (event) => void events.push(event));
  return partitionsOf(events);
}

const named = (name: string): string[] => readdirSync(join(root, name)).toSorted();

describe('a backup', () => {
  test('has every task, and a manifest with its contents', async () => {
    const source = cluster();
    const { manifest, progress } = await create(source, at('x'));
    expect(await contentOf(at('x'))).toEqual(source.content);
    expect(manifest).toMatchObject({ clusterId: 'c1', nodeId: '', partitionCount: 3, release: '1.0.0' });
    expect(manifest.partitions.map(({ tasks, lastTicket }) => [tasks, lastTicket])).toEqual([
      [1, 1],
      [10, 10],
      [0, 0],
    ]);
    expect(progress).toMatchObject({ partitions: 3, kept: 0, unchanged: 0, tasks: 11 });
    expect(named('x')).not.toContain(PROGRESS);
  });

  test('is not written to a place that is not empty', async () => {
    await create(cluster(), at('x'));
    await expect(create(cluster(), at('x'))).rejects.toMatchObject({
      reason: 'BACKUP_PLACE_IN_USE',
      message: expect.stringContaining('has a complete backup'),
    });
    writeFileSync(join(root, 'letter.txt'), 'dear');
    await expect(create(cluster(), new Directory(root))).rejects.toMatchObject({ reason: 'BACKUP_PLACE_IN_USE' });
  });

  test('divides its limit of bytes among concurrent calls', async () => {
    const source = cluster();
    await create(source, at('x'), { concurrency: 2, maxBytesPerSecond: 1001 });
    expect(new Set(source.asked.slice(1).map(({ maxBytesPerSecond }) => maxBytesPerSecond))).toEqual(new Set([500]));
  });

  test('begins a partition again when its stream breaks', async () => {
    const source = cluster();
    let broken = 0;
    source.onMessage = (partition, index) => {
      if (partition === 1 && index === 8 && broken++ === 0) throw new BrokenStreamError();
    };
    await create(source, at('x'));
    expect(source.sent.filter((id) => id === 1).length).toBe(2);
    expect(await contentOf(at('x'))).toEqual(source.content);
  });

  test('has no parts of an interrupted attempt', async () => {
    const source = cluster();
    source.onMessage = (_partition, index) => {
      if (index === 8) throw new BrokenStreamError();
    };
    await expect(create(source, at('x'))).rejects.toThrow(BrokenStreamError);
    const partsOf1 = () => named('x').filter((name) => name.startsWith('partition-00001'));
    expect(partsOf1().length).toBeGreaterThan(1);
    source.onMessage = () => {};
    await create(source, at('x'), { partBytes: 100_000 });
    expect(partsOf1()).toEqual([partName(1, 0)]);
    expect(await contentOf(at('x'))).toEqual(source.content);
  });

  test('ends with the error if streams break too often', async () => {
    const source = cluster();
    source.onMessage = (partition) => {
      if (partition === 1) throw new BrokenStreamError();
    };
    await expect(create(source, at('x'))).rejects.toThrow(BrokenStreamError);
    expect(source.sent.filter((id) => id === 1).length).toBe(3);
  });

  test('does not mix two clusters, or a node before and after its restart', async () => {
    const other = cluster();
    other.onMessage = () => {
      other.clusterId = 'c2';
    };
    await expect(create(other, at('x'), { concurrency: 1 })).rejects.toMatchObject({ reason: 'OTHER_CLUSTER' });
    const restarted = cluster();
    restarted.clusterId = '';
    restarted.onMessage = (partition) => {
      if (partition === 1) restarted.nodeId = 'n2';
    };
    await expect(create(restarted, at('y'), { concurrency: 1 })).rejects.toMatchObject({ reason: 'OTHER_CLUSTER' });
    // It begins anew: what the node held before may have been another node's.
    restarted.onMessage = () => {};
    const { progress } = await create(restarted, at('y'));
    expect(progress.kept).toBe(0);
  });

  test('of a newer format of rows is refused', async () => {
    const source = cluster();
    source.formatVersion = DATA_FORMAT + 1;
    await expect(create(source, at('x'))).rejects.toMatchObject({ reason: 'BACKUP_TOO_NEW' });
  });
});

describe('a backup that was interrupted', () => {
  /** Interrupts a backup in partition 2, when the others are complete. */
  async function interrupted(source: FakePartitions): Promise<void> {
    const stop = new AbortController();
    source.onMessage = (partition) => {
      if (partition === 2) stop.abort(new Error('enough'));
    };
    source.add(2, 'c');
    await expect(create(source, at('x'), { concurrency: 1, signal: stop.signal })).rejects.toThrow('enough');
    source.onMessage = () => {};
    source.asked.length = 0;
  }

  test('cannot be restored, and the error says so', async () => {
    await interrupted(cluster());
    await expect(contentOf(at('x'))).rejects.toMatchObject({
      reason: 'BACKUP_INCOMPLETE',
      message: expect.stringContaining('has an unfinished backup'),
    });
  });

  test('keeps the complete partitions when it is continued', async () => {
    const source = cluster();
    await interrupted(source);
    const { progress } = await create(source, at('x'));
    expect(progress.kept).toBe(2);
    expect(source.sent).toEqual([2]);
    expect(await contentOf(at('x'))).toEqual(source.content);
  });

  test('sends a partition again if one of its parts was damaged or is missing', async () => {
    const source = cluster();
    await interrupted(source);
    unlinkSync(join(root, 'x', partName(0, 0)));
    const damaged = readFileSync(join(root, 'x', partName(1, 4)));
    damaged[20] = (damaged[20] ?? 0) ^ 1;
    writeFileSync(join(root, 'x', partName(1, 4)), damaged);
    const { progress } = await create(source, at('x'));
    expect(progress.kept).toBe(0);
    expect(await contentOf(at('x'))).toEqual(source.content);
  });

  test('is not continued with another cluster', async () => {
    await interrupted(cluster());
    const other = cluster();
    other.clusterId = 'c2';
    await expect(create(other, at('x'))).rejects.toMatchObject({ reason: 'OTHER_CLUSTER' });
  });

  test('is not continued by two programs at the same time', async () => {
    const source = cluster();
    let second: Promise<CreatedBackup> | undefined;
    source.onMessage = async (partition) => {
      if (partition !== 2 || second) return;
      second = create(cluster(), at('x'));
      await second;
    };
    await expect(create(source, at('x'), { concurrency: 1 })).rejects.toMatchObject({ reason: 'BACKUP_PLACE_IN_USE' });
    expect(await contentOf(at('x'))).toEqual(source.content);
  });

  test('names the other program when that has broken its files', async () => {
    const source = cluster();
    let isBroken = false;
    source.onMessage = async (partition) => {
      if (partition !== 2 || isBroken) return;
      await create(cluster(), at('x'));
      isBroken = true;
    };
    const place = at('x', {
      rename: async (from, to) => {
        if (isBroken && String(to).includes('partition-')) throw new Error('it is gone');
        await files.rename(from, to);
      },
    });
    await expect(create(source, place, { concurrency: 1 })).rejects.toMatchObject({ reason: 'BACKUP_PLACE_IN_USE' });
  });
});

describe('a backup with a base', () => {
  test('takes unchanged partitions from it, without sending or storing them again', async () => {
    const source = cluster();
    await create(source, at('base'));
    source.add(0, 'a2');
    source.nowMs += 500;
    const { manifest, progress } = await create(source, at('x'), { base: at('base') });
    expect(progress).toMatchObject({ partitions: 3, unchanged: 2 });
    expect(manifest.partitions.map(({ nowMs }) => nowMs)).toEqual([1_000_500, 1_000_500, 1_000_500]);
    expect(statSync(join(root, 'x', partName(1, 0))).ino).toBe(statSync(join(root, 'base', partName(1, 0))).ino);
    rmSync(join(root, 'base'), { recursive: true });
    expect(await contentOf(at('x'))).toEqual(source.content);
  });

  test('restores leases and delays by the time of this backup, not by that of the base', async () => {
    const source = cluster();
    await create(source, at('base'));
    source.nowMs += 500;
    await create(source, at('x'), { base: at('base') });
    const begun: number[] = [];
    await readBackup(at('x'), (event) => void (event.kind === 'begin' && begun.push(event.nowMs)));
    expect(begun).toEqual([1_000_500, 1_000_500, 1_000_500]);
  });

  test('copies parts if they cannot be linked', async () => {
    const source = cluster();
    await create(source, at('base'));
    const link = () => Promise.reject(Object.assign(new Error('other device'), { code: 'EXDEV' }));
    const { progress } = await create(source, at('x', { link }), { base: at('base') });
    expect(progress.unchanged).toBe(3);
    expect(await contentOf(at('x'))).toEqual(source.content);
  });

  test('sends a partition again if its parts in the base are damaged', async () => {
    const source = cluster();
    await create(source, at('base'));
    unlinkSync(join(root, 'base', partName(1, 3)));
    const { progress } = await create(source, at('x'), { base: at('base') });
    expect(progress.unchanged).toBe(2);
    expect(await contentOf(at('x'))).toEqual(source.content);
  });

  test('is refused if the base is of another cluster, before anything is written', async () => {
    const other = cluster();
    other.clusterId = 'c2';
    await create(other, at('base'));
    await expect(create(cluster(), at('x'), { base: at('base') })).rejects.toMatchObject({ reason: 'OTHER_CLUSTER' });
    expect(readdirSync(root)).toEqual(['base']);
  });
});

describe('a full disk', () => {
  const noSpace = () => Promise.reject(Object.assign(new Error('no space left on device'), { code: 'ENOSPC' }));

  test('at any file ends the backup with a clear error, and the next run continues it', async () => {
    const source = cluster();
    let opened = 0;
    for (let failing = 0; ; failing++) {
      opened = 0;
      const target = at(`x${failing}`, {
        open: (path, flags) => (flags === 'wx' && opened++ >= failing ? noSpace() : files.open(path, flags)),
      });
      const failed = await create(source, target, { concurrency: 1 }).then(
        () => undefined,
        (error: unknown) => error,
      );
      if (failed === undefined) break;
      expect(failed).toMatchObject({ reason: 'BACKUP_PLACE_FULL' });
      await expect(contentOf(at(`x${failing}`))).rejects.toThrow();
      await create(source, at(`x${failing}`));
      expect(await contentOf(at(`x${failing}`))).toEqual(source.content);
    }
    expect(opened).toBeGreaterThan(12);
  });
});

test('a place with a manifest is a backup', async () => {
  await create(cluster(), at('x'));
  unlinkSync(join(root, 'x', MANIFEST));
  await expect(contentOf(at('x'))).rejects.toMatchObject({
    reason: 'BACKUP_INCOMPLETE',
    message: expect.stringContaining('manifest.json is missing'),
  });
});
