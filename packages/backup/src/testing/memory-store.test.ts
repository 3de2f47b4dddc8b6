import { MemoryStore } from './memory-store.ts';
import { storeContract } from './store-contract.ts';

storeContract('a place in memory', async () => {
  const places = new Map<string, Map<string, Uint8Array>>();
  return {
    at: (name) => {
      const objects = places.get(name) ?? new Map<string, Uint8Array>();
      places.set(name, objects);
      return new MemoryStore(objects);
    },
    [Symbol.asyncDispose]: async () => {},
  };
});
