import { cp, mkdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { type CrashableStore, storeContract } from '../testing/store-contract.ts';
import { SYNC_MARK_FILE } from './sync-mark.ts';
import { openSmall, temporaryDirectory } from './test-support.ts';

/**
 * The sync mark first: a crash is one instant, a copy is not, and a mark from after the rest would tell of a loss. The
 * reserve is of no interest, and may be in the making.
 */
async function copyAtCrash(from: string, to: string): Promise<void> {
  await mkdir(to);
  await cp(join(from, SYNC_MARK_FILE), join(to, SYNC_MARK_FILE));
  const skipped = (path: string) => [SYNC_MARK_FILE, 'LOCK'].includes(basename(path)) || /reserve/.test(path);
  await cp(from, to, { recursive: true, filter: (path) => !skipped(path) });
}

/** A crash leaves the files as they are at that moment: the store goes on with a copy of them. */
storeContract('the RocksDB store', async (): Promise<CrashableStore> => {
  const parent = await temporaryDirectory();
  let life = 0;
  let store = await openSmall(join(parent.path, '0'));
  const dir = () => join(parent.path, String(life));
  return {
    get store() {
      return store;
    },
    async crashAndReopen() {
      const before = store;
      const from = dir();
      life++;
      await copyAtCrash(from, dir());
      await before.close();
      store = await openSmall(dir());
    },
    async reopen() {
      store = await openSmall(dir());
    },
    async [Symbol.asyncDispose]() {
      await store.close();
      await parent[Symbol.asyncDispose]();
    },
  };
});
