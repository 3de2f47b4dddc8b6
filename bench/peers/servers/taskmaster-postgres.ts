import { POSTGRES_DATABASE, POSTGRES_USER, postgres } from './postgres.ts';
import type { ServerKind } from './server.ts';

/** One node whose store is a PostgreSQL with the settings of the other queues on PostgreSQL. */
export const taskmasterOnPostgres: ServerKind = {
  find: () => postgres.find(),
  async start(dir, processes) {
    // Not below `dir`, which the database's user may not enter.
    const database = await postgres.start(await processes.directory(), processes);
    const stopDatabase = () => database.stop();
    try {
      const store = `postgres://${POSTGRES_USER}@${database.endpoint}/${POSTGRES_DATABASE}`;
      const node = await processes.node(dir, [`--store=${store}`]);
      return {
        endpoint: node.endpoint,
        version: `this build, ${database.version}`,
        pids: [node.pid, ...database.pids],
        stop: () => node.stop().finally(stopDatabase),
      };
    } catch (error) {
      await stopDatabase();
      throw error;
    }
  },
};
