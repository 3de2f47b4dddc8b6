import { type CrashableStore, storeContract } from '@taskmaster/engine/testing';
import { afterAll, beforeAll, describe } from 'vitest';
import { openPostgresStore } from './open-store.ts';
import { noPostgres, PostgresServer } from './testing/index.ts';

describe.skipIf(noPostgres !== undefined)(`PostgreSQL${noPostgres === undefined ? '' : `: ${noPostgres}`}`, () => {
  let server: PostgresServer;
  let schemas = 0;
  beforeAll(async () => {
    // Processes crash here, never the machine.
    server = await PostgresServer.start({ settings: ['fsync = off'] });
  });
  afterAll(async () => {
    await server[Symbol.asyncDispose]();
  });

  /** A crash of the process: another one takes its place, and what it still sends comes to nothing. */
  storeContract('the PostgreSQL store', async (): Promise<CrashableStore> => {
    const schema = `contract_${++schemas}`;
    const open = () => openPostgresStore({ url: server.url(), schema, name: 'node', release: '0.0.0' });
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
