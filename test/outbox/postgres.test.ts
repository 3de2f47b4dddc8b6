import { describeOnPostgres, WITHOUT_FSYNC } from '@taskmaster/postgres/testing';
import { openPostgres } from './databases.ts';
import { outboxContract } from './outbox-contract.ts';

describeOnPostgres('an outbox in PostgreSQL', WITHOUT_FSYNC, (server) => {
  outboxContract(() => openPostgres(server().url()));
});
