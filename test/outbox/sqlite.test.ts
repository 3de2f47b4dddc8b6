import { describe } from 'vitest';
import { openSqlite } from './databases.ts';
import { outboxContract } from './outbox-contract.ts';

describe('an outbox in SQLite', () => outboxContract(() => openSqlite()));
