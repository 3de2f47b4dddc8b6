import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, unlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createBackup } from '../create/create-backup.ts';
import { Directory } from '../places/directory.ts';
import { FakePartitions } from '../testing/fake-partitions.ts';
import { verifyBackup } from './verify-backup.ts';

const { signal } = new AbortController();
const retry = { backoffMs: { initial: 1, max: 1 }, giveUpAfterMs: 10, maxBroken: 1 };

let root: string;
let names: readonly string[];
beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), 'taskmaster-read-'));
  const source = new FakePartitions(3);
  for (let pid = 0; pid < 3; pid++) source.add(1, `b${pid}`);
  const target = new Directory(join(root, 'whole'));
  const options = { concurrency: 1, maxBytesPerSecond: 0, partBytes: 1, release: '1.0.0' };
  await createBackup({ ...options, source, target, retry, signal });
  names = readdirSync(join(root, 'whole'));
});
afterAll(() => rmSync(root, { recursive: true }));

/** Verifies a copy of the backup after a change. Resolves with the error; undefined if the backup is intact. */
async function problemAfter(change: (dir: string) => void): Promise<unknown> {
  const dir = join(root, 'changed');
  cpSync(join(root, 'whole'), dir, { recursive: true });
  try {
    change(dir);
    await verifyBackup(new Directory(dir), { signal });
    return undefined;
  } catch (error) {
    return error;
  } finally {
    rmSync(dir, { recursive: true });
  }
}

describe('verify', () => {
  test('accepts an intact backup beside foreign files', async () => {
    expect(await problemAfter((dir) => writeFileSync(join(dir, 'README'), 'of the operator'))).toBe(undefined);
  });

  test('refuses a flipped bit in any file', async () => {
    for (const name of names) {
      const { byteLength } = readFileSync(join(root, 'whole', name));
      for (const at of [0, 4, 5, 9, 13, 16, byteLength >> 1, byteLength - 1]) {
        const problem = await problemAfter((dir) => {
          const bytes = readFileSync(join(dir, name));
          bytes[at] = (bytes[at] ?? 0) ^ 0x10;
          writeFileSync(join(dir, name), bytes);
        });
        const reason = expect.stringMatching(/BACKUP_DAMAGED|NOT_A_BACKUP|BACKUP_TOO_NEW/);
        expect(problem, `${name} at ${at}`).toMatchObject({ reason });
      }
    }
  });

  test('refuses a truncated or a missing file, and names it', async () => {
    for (const name of names) {
      const truncated = await problemAfter((dir) => {
        writeFileSync(join(dir, name), readFileSync(join(dir, name)).subarray(0, -1));
      });
      const missing = await problemAfter((dir) => unlinkSync(join(dir, name)));
      for (const problem of [truncated, missing]) {
        expect(problem).toMatchObject({ message: expect.stringContaining(name) });
      }
      expect(missing).toMatchObject({ reason: 'BACKUP_INCOMPLETE' });
    }
  });

  test('refuses parts that have changed their places', async () => {
    const problem = await problemAfter((dir) => {
      const [first = '', second = ''] = names.filter((name) => name.startsWith('partition-00001'));
      const bytes = readFileSync(join(dir, first));
      writeFileSync(join(dir, first), readFileSync(join(dir, second)));
      writeFileSync(join(dir, second), bytes);
    });
    expect(problem).toMatchObject({ reason: 'BACKUP_DAMAGED' });
  });

  test('finds no backup in an empty or a foreign directory', async () => {
    for (const dir of [join(root, 'nowhere'), tmpdir()]) {
      await expect(verifyBackup(new Directory(dir), { signal })).rejects.toMatchObject({ reason: 'NOT_A_BACKUP' });
    }
  });
});
