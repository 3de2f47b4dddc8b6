import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Key } from '../domain/ids.ts';
import { Family, type Store } from '../ports/store.ts';
import { WriteBatch } from '../ports/write-batch.ts';
import { openRocksStore } from './rocks-store.ts';

const MIB = 1024 * 1024;

export interface TemporaryDirectory extends AsyncDisposable {
  readonly path: string;
}

/** A new directory, deleted at the end of its scope. */
export async function temporaryDirectory(): Promise<TemporaryDirectory> {
  const path = await mkdtemp(join(tmpdir(), 'taskmaster-store-'));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** Small enough for tests to open many. */
export const openSmall = (dir: string): Promise<Store> =>
  openRocksStore({ dir, reserveBytes: MIB, cacheBytes: 8 * MIB, memtableBytes: 8 * MIB });

/** Opens a store that is expected not to open; returns why. */
export async function refusalOf(opening: Promise<Store>): Promise<Error> {
  try {
    await (await opening).close();
  } catch (error) {
    return error as Error;
  }
  throw new Error('the store opened');
}

export const put = (name: string, value: Uint8Array | string = ''): WriteBatch => {
  const batch = new WriteBatch();
  batch.put(Family.ready, name as Key, typeof value === 'string' ? Buffer.from(value) : value);
  return batch;
};

/** Names of all rows of the family that `put` writes to. */
export async function namesIn(store: Store): Promise<string[]> {
  const range = { gte: '' as Key, lt: '\xff' as Key };
  const rows = await store.scan(Family.ready, range, { rows: 1_000_000, bytes: 1_000_000_000 });
  return rows.map(({ key }) => key);
}

export interface StoreProcess {
  readonly process: ChildProcess;
  /** Everything it told, parsed. */
  readonly told: unknown[];
  /** Resolves when it has told that many things. */
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
        throw new Error(`it ended with ${code} after telling ${told.length} of ${count} things: ${stderr}`);
      });
      while (told.length < count) await Promise.race([once(changed, 'told'), gone]);
      gone.catch(() => undefined); // it may end now
    },
  };
}
