import { connect } from '@taskmaster/client';
import { noPostgres, PostgresServer } from '@taskmaster/postgres/testing';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { startNode } from '../support/processes/start-node.ts';

/** The value of one series in the text of Prometheus. */
const seriesIn = (text: string, series: string): number => {
  const line = text.split('\n').find((each) => each.startsWith(`${series} `));
  return Number(line?.slice(series.length + 1));
};

test.skipIf(noPostgres !== undefined)(
  `a node tells how its database answers, and is not ready while it does not${noPostgres === undefined ? '' : `: ${noPostgres}`}`,
  { timeout: 60_000 },
  async () => {
    await using server = await PostgresServer.start({ settings: ['fsync = off'] });
    await using node = await startNode({ flags: [`--store=${server.url()}`] });
    await using client = await connect({ endpoints: node.endpoint, timeout: '30s' });
    const get = async (path: string): Promise<{ readonly status: number; readonly text: string }> => {
      const reply = await fetch(`http://127.0.0.1:${node.httpPort}${path}`, { headers: { connection: 'close' } });
      return { status: reply.status, text: await reply.text() };
    };
    const metrics = async (): Promise<string> => (await get('/metrics')).text;

    await client.queue('work').enqueue('before');
    const before = await metrics();
    expect(
      seriesIn(before, 'taskmaster_database_statement_duration_seconds_count{statement="commit"}'),
    ).toBeGreaterThanOrEqual(1);
    expect(seriesIn(before, 'taskmaster_database_waiting_seconds')).toBeLessThan(1);
    expect(seriesIn(before, 'taskmaster_database_reconnects_total')).toBe(0);
    expect(seriesIn(before, 'taskmaster_store_bytes{kind="disk"}')).toBeGreaterThan(8192);
    expect((await get('/readyz')).status).toBe(200);

    await server.stop();
    const waiting = client.queue('work').enqueue('meanwhile');
    await eventually(
      async () => {
        const { status, text } = await get('/readyz');
        expect(status).toBe(503);
        expect(JSON.parse(text)).toMatchObject({
          state: 'waiting',
          reason: expect.stringMatching(/: the database has not answered for \d+ s, and calls wait for it$/),
        });
      },
      { withinMs: 20_000 },
    );
    expect(seriesIn(await metrics(), 'taskmaster_database_waiting_seconds')).toBeGreaterThan(5);

    await server.restart();
    await waiting;
    expect((await get('/readyz')).status).toBe(200);
    const after = await metrics();
    expect(seriesIn(after, 'taskmaster_database_waiting_seconds')).toBeLessThan(5);
    expect(seriesIn(after, 'taskmaster_database_reconnects_total')).toBe(1);
  },
);
