import { type CrashableStore, storeContract } from '@taskmaster/engine/testing';
import { openPostgresStore } from './open-store.ts';
import { describeOnPostgres, WITHOUT_FSYNC } from './testing/index.ts';

describeOnPostgres('PostgreSQL', WITHOUT_FSYNC, (server) => {
  let schemas = 0;

  /** A crash of the process: another one takes its place, and what it still sends comes to nothing. */
  storeContract('the PostgreSQL store', async (): Promise<CrashableStore> => {
    const schema = `contract_${++schemas}`;
    const open = () => openPostgresStore({ url: server().url(), schema, name: 'node', release: '0.0.0' });
    let store = await open();
    return {
      get store() {
        return store;
      },
      async crashAndReopen() {
        const before = store;
        before.giveUp();
        store = await open();
        await before.close();
      },
      async reopen() {
        store = await open();
      },
      async [Symbol.asyncDispose]() {
        await store.close();
      },
    };
  });
});
