import { settle } from '../ports/virtual-clock.ts';
import { SeededRandom } from './seeded-random.ts';
import { SimDisk } from './sim-store.ts';
import { type CrashableStore, storeContract } from './store-contract.ts';

/** A simulated disk in the form that the contract tests need. */
function openSimStore(atomicBatches: boolean, seed: number): CrashableStore {
  const disk = new SimDisk({ random: new SeededRandom(seed), atomicBatches });
  let store = disk.open();
  return {
    get store() {
      return store;
    },
    async crashAndReopen() {
      disk.crash();
      await settle();
      store = disk.open();
    },
    async reopen() {
      store = disk.open();
    },
    async [Symbol.asyncDispose]() {
      await store.close();
    },
  };
}

for (const seed of [1, 2, 3]) {
  storeContract(`the simulated store (seed ${seed})`, async () => openSimStore(true, seed));
  storeContract(`the simulated store without atomic batches (seed ${seed})`, async () => openSimStore(false, seed));
}
