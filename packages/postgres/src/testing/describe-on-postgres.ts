import { afterAll, beforeAll, describe } from 'vitest';
import { noPostgres, PostgresServer, type ServerOptions } from './postgres-server.ts';

interface ServerForTests extends ServerOptions {
  /** Longest time of each test, in ms. Default: that of the test runner. */
  readonly testTimeoutMs?: number;
}

/**
 * Describes tests that have a server together, which starts before the first of them and ends after the last. Where PostgreSQL is
 * not installed they are skipped, and the title says so.
 */
export function describeOnPostgres(
  title: string,
  { testTimeoutMs, ...options }: ServerForTests,
  tests: (server: () => PostgresServer) => void,
): void {
  const whole = noPostgres === undefined ? title : `${title}: ${noPostgres}`;
  describe.skipIf(noPostgres !== undefined)(
    whole,
    testTimeoutMs === undefined ? {} : { timeout: testTimeoutMs },
    () => {
      let server: PostgresServer | undefined;
      beforeAll(async () => {
        server = await PostgresServer.start(options);
      });
      afterAll(async () => {
        await server?.[Symbol.asyncDispose]();
      });
      tests(() => {
        if (server === undefined) throw new Error('the server has not started');
        return server;
      });
    },
  );
}

/** For servers of tests in which only processes crash, never the machine. */
export const WITHOUT_FSYNC: ServerOptions = { settings: ['fsync = off'] };
