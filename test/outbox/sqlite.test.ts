import { Outbox, Relay } from '@taskmaster/outbox';
import { describe, expect, test } from 'vitest';
import { clientSetUp } from '../client/support/client-set-up.ts';
import { openSqlite } from './databases.ts';
import { outboxContract } from './outbox-contract.ts';

describe('an outbox in SQLite', () => outboxContract(() => openSqlite()));

test('what is no client, no outbox or no query function is refused before anything happens', async () => {
  await using db = await openSqlite();
  const { outbox, query } = db;
  const { client } = clientSetUp();
  // As JavaScript calls it.
  const pool = { query } as never;
  await expect(outbox.enqueue(pool, 'q', 1)).rejects.toThrow('must be a query function, such as pgQuery(pool)');
  expect(() => new Relay({ client, outbox, query: pool })).toThrow('must be a query function');
  expect(() => new Relay({ client, query } as never)).toThrow('outbox: must be an Outbox');
  expect(() => new Relay({ outbox, query } as never)).toThrow('client: must be a client');
  const options = undefined as never;
  expect(() => new Outbox(options)).toThrow("dialect: 'undefined' is not");
});
