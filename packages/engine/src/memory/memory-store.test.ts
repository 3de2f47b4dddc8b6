import { storeContract } from '../testing/store-contract.ts';
import { MemoryRows } from './memory-rows.ts';
import { MemoryStore } from './memory-store.ts';

storeContract('the store in memory', async () => {
  const rows = new MemoryRows();
  let store = new MemoryStore(rows);
  // The rows are all that there is of it: a crash loses nothing.
  const reopen = async (): Promise<void> => {
    store = new MemoryStore(rows);
  };
  return {
    get store() {
      return store;
    },
    crashAndReopen: reopen,
    reopen,
    [Symbol.asyncDispose]: () => store.close(),
  };
});
