import { join } from 'node:path';
import { type CrashableStore, storeContract } from '@taskmaster/engine/testing';
import { copyAtCrash, openSmall, temporaryDirectory } from './test-support.ts';

/** Simulates a crash: the store is opened again on a copy of its files at that moment. */
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
