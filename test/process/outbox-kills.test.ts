import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connect, pidText } from '@taskmaster/client';
import { SeededRandom } from '@taskmaster/engine/testing';
import { noPostgres, PostgresServer, WITHOUT_FSYNC } from '@taskmaster/postgres/testing';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { clientCli, root } from '../support/paths.ts';
import { type Running, startProcess } from '../support/processes/child-process.ts';
import { startNode } from '../support/processes/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { createShop, openShop } from './programs/outbox-shop.ts';
import { startProgram } from './programs.ts';

/** Kills of each part: of the application, of relays (`taskmaster outbox relay`), of the node. 30 for a long run. */
const KILLS = Number(process.env.TASKMASTER_KILLS ?? 1);
const SEED = Number(process.env.TASKMASTER_SEED ?? 1);
const isLong = process.env.TASKMASTER_KILLS !== undefined;

type Part = 'application' | 'relay' | 'node';

const timeout = 60_000 + KILLS * 60_000;

test(`${KILLS} kills of application, relay and node lose no task of an outbox in SQLite, and double none`, {
  timeout,
}, async () => {
  await using dir = await temporaryDirectory();
  await killEach(join(dir.path, 'shop.db'), 'SQLite');
});

const why = noPostgres ?? (isLong ? undefined : 'only in a long run, with TASKMASTER_KILLS');
test.skipIf(why !== undefined)(
  `the same in PostgreSQL${why === undefined ? '' : `: ${why}`}`,
  { timeout },
  async () => {
    await using server = await PostgresServer.start(WITHOUT_FSYNC);
    await killEach(server.url(), 'PostgreSQL');
  },
);

async function killEach(database: string, name: string): Promise<void> {
  await using dir = await temporaryDirectory();
  await using running = new AsyncDisposableStack();
  const random = new SeededRandom(SEED);
  await createShop(database);
  const shop = await openShop(database);
  running.defer(() => shop.close());
  let node = await startNode({ dir: join(dir.path, 'node') });
  running.defer(() => node[Symbol.asyncDispose]());
  const { endpoint, grpcPort } = node;
  let apps = 0;
  const startApp = (): Promise<Running> => startProgram('outbox-app.ts', database, `app${++apps}`);
  const startRelay = (): Promise<Running> => {
    const url = database.includes(':') ? database : `sqlite:${database}`;
    const flags = ['--database', url, '--endpoint', endpoint, '--batch', '20', '--take-over-after', '1s'];
    // On a busy machine a node answers late, and nothing here starts a relay again that gives up.
    flags.push('--timeout', '60s', '--connect-timeout', '60s');
    // The drivers are those of the working directory.
    return startProcess(process.execPath, [clientCli, 'outbox', 'relay', ...flags], { cwd: join(root, 'test') });
  };
  let app = await startApp();
  const relays = [await startRelay(), await startRelay()];
  running.defer(async () => {
    await Promise.all([app, ...relays].map((program) => program.kill()));
  });

  /** The tasks of each order, by their PIDs: a task that comes again after a crash of the node has the same one. */
  const seen = new Map<string, Set<string>>();
  const delays: number[] = [];
  const client = running.use(await connect({ endpoints: endpoint, telemetry: false }));
  const worker = client.worker<string>(['shop#even', 'shop#odd'], async (task) => {
    const { id, at } = task.data as { readonly id: string; readonly at: number };
    if (!seen.has(id)) delays.push(Date.now() - at);
    seen.set(id, (seen.get(id) ?? new Set()).add(`${task.queue} ${pidText(task.pid)}`));
  });
  worker.start();

  const began = performance.now();
  const kills: Part[] = Array.from({ length: KILLS }, (): Part[] => ['application', 'relay', 'node']).flat();
  for (let left = kills.length; left > 0; left--) {
    const [part] = kills.splice(random.int(left), 1);
    const enough = seen.size + 20 + random.int(40);
    await eventually(() => expect(seen.size).toBeGreaterThan(enough), { withinMs: 60_000 });
    await delay(random.int(50)); // A random moment.
    if (part === 'node') {
      await node.kill();
      node = await startNode({ dir: join(dir.path, 'node'), grpcPort });
    } else if (part === 'application') {
      await app.kill();
      app = await startApp();
    } else {
      const at = random.int(relays.length);
      await relays[at]?.kill();
      relays[at] = await startRelay();
    }
  }
  const lately = seen.size + 20;
  await eventually(() => expect(seen.size).toBeGreaterThan(lately), { withinMs: 60_000 });
  const tookMs = performance.now() - began;
  await app.kill();

  const orders = (await shop.query('SELECT id FROM orders', [])).map(({ id }) => String(id));
  await eventually(() => expect(orders.filter((id) => !seen.has(id))).toEqual([]), { withinMs: 60_000 });
  await eventually(async () => expect((await shop.outbox.stats(shop.query)).pending).toBe(0), { withinMs: 60_000 });
  await worker.stop();
  const rest = await client.stats({ queues: ['shop#even', 'shop#odd'] });
  expect(rest.totals.available).toBe(0);
  const [lost, doubled, invented] = [
    orders.filter((id) => !seen.has(id)),
    [...seen].filter(([, tasks]) => tasks.size > 1).map(([id]) => id),
    [...seen.keys()].filter((id) => !orders.includes(id)),
  ];
  const sorted = delays.toSorted((a, b) => a - b);
  const quantile = (q: number): number | undefined => sorted[Math.floor(q * (sorted.length - 1))];
  console.log(
    `${name}, ${3 * KILLS} kills, seed ${SEED}: ${orders.length} orders in ${(tookMs / 1000).toFixed(0)} s, ` +
      `${lost.length} lost, ${doubled.length} doubled, ${invented.length} of transactions that were rolled back; ` +
      `delay p50 ${quantile(0.5)} ms, p99 ${quantile(0.99)} ms`,
  );
  expect({ lost, doubled, invented }).toEqual({ lost: [], doubled: [], invented: [] });
}
