import { DatabaseTime } from '../database-time.ts';
import type { After, LinkOptions, StoreLog } from '../link.ts';
import { PostgresStore } from '../postgres-store.ts';
import type { SimDatabase } from './sim-database.ts';

const SILENT: StoreLog = { info: () => {}, warn: () => {}, error: () => {} };

/** Opens a store in the simulated database, as `openPostgresStore` does. */
export async function openOnSim(
  database: SimDatabase,
  name: string,
  after: After,
  standing?: LinkOptions['standing'],
): Promise<PostgresStore> {
  const session = await database.connect();
  const { me, seq } = database.register(name);
  return new PostgresStore({
    database,
    session,
    me,
    acknowledged: seq,
    after,
    log: SILENT,
    time: new DatabaseTime(),
    diskBytes: 1,
    standing,
  });
}
