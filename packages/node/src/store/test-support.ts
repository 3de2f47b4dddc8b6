import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Key } from '@taskmaster/engine/domain';
import { Family, type Store, WriteBatch } from '@taskmaster/engine/ports';
import { openRocksStore, type StoreLog } from './rocks-store.ts';
import { SYNC_MARK_FILE } from './sync-mark.ts';
import { SYNCED_FILES } from './synced-files.ts';

const MIB = 1024 * 1024;

export interface TemporaryDirectory extends AsyncDisposable {
  readonly path: string;
}

/** A new directory, deleted at the end of its scope. */
export async function temporaryDirectory(): Promise<TemporaryDirectory> {
  const path = await mkdtemp(join(tmpdir(), 'taskmaster-store-'));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** Opens a store that is small, because tests open many. */
export const openSmall = (dir: string, log?: StoreLog): Promise<Store> =>
  openRocksStore({ dir, release: '0.0.0', reserveBytes: MIB, blockCacheBytes: 8 * MIB, memtableBytes: 8 * MIB, log });

/**
 * Copies the directory of an open store as a crash would leave it, without the reserve. The guards are copied first, because a
 * copy takes time: guards that are newer than the other files would report a loss.
 */
export async function copyAtCrash(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  const guards = [SYNC_MARK_FILE, SYNCED_FILES];
  for (const name of guards) await cp(join(from, name), join(to, name));
  const isSkipped = (name: string) => [...guards, 'LOCK', 'reserve'].includes(name) || name.endsWith('.new');
  await cp(from, to, { recursive: true, filter: (path) => !isSkipped(basename(path)) });
}

/** Returns the error of an attempt that is expected to fail: an open, or a read of damaged rows. */
export async function refusalOf(attempt: Promise<Store | readonly unknown[]>): Promise<Error> {
  try {
    const done = await attempt;
    if ('close' in done) await done.close();
  } catch (error) {
    return error as Error;
  }
  throw new Error('expected an error');
}

export const put = (name: string, value: Uint8Array | string = ''): WriteBatch => {
  const batch = new WriteBatch();
  batch.put(Family.ready, name as Key, typeof value === 'string' ? Buffer.from(value) : value);
  return batch;
};

/** Names of all rows of a family, by default of the family that `put` writes to. */
export async function namesIn(store: Store, family: Family = Family.ready): Promise<string[]> {
  const range = { gte: '' as Key, lt: '\xff' as Key };
  const rows = await store.scan(family, range, { rows: 1_000_000, bytes: 1_000_000_000 });
  return rows.map(({ key }) => key);
}

/** Waits until the check succeeds. For work of other threads and of RocksDB, which takes an unknown time. */
export async function eventually(withinMs: number, check: () => Promise<boolean> | boolean): Promise<void> {
  const end = performance.now() + withinMs;
  while (!(await check())) {
    if (performance.now() > end) throw new Error(`not within ${withinMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export interface StoreProcess {
  readonly process: ChildProcess;
  /** All its messages, parsed. */
  readonly told: unknown[];
  /** Resolves when it has sent this many messages. */
  toldAtLeast(count: number): Promise<void>;
  /** Resolves with its exit code or the signal that ended it, and its standard error. */
  readonly ended: Promise<{ readonly code: number | NodeJS.Signals | null; readonly stderr: string }>;
}

/** Starts `fixtures/store-process.mjs`, behind a command such as strace if one is given. */
export function startStoreProcess(args: readonly string[], behind: readonly string[] = []): StoreProcess {
  const script = fileURLToPath(new URL('./fixtures/store-process.mjs', import.meta.url));
  const [command = '', ...rest] = [...behind, process.execPath, script, ...args];
  const child = spawn(command, rest, { stdio: ['ignore', 'pipe', 'pipe'] });
  const told: unknown[] = [];
  const changed = new EventTarget();
  createInterface({ input: child.stdout }).on('line', (line) => {
    told.push(JSON.parse(line));
    changed.dispatchEvent(new Event('told'));
  });
  const stderr: Buffer[] = [];
  child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk));
  const ended = new Promise<Awaited<StoreProcess['ended']>>((resolve) =>
    child.once('close', (code, signal) => resolve({ code: code ?? signal, stderr: Buffer.concat(stderr).toString() })),
  );
  return {
    process: child,
    told,
    ended,
    async toldAtLeast(count) {
      const gone = ended.then(({ code, stderr }) => {
        throw new Error(`it ended with ${code} after ${told.length} of ${count} messages: ${stderr}`);
      });
      while (told.length < count) await Promise.race([once(changed, 'told'), gone]);
      gone.catch(() => undefined); // it may end now
    },
  };
}
