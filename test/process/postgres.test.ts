import { chmod, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { bytesCodec, connect } from '@taskmaster/client';
import { SeededRandom } from '@taskmaster/engine/testing';
import { openEmbedded } from '@taskmaster/node';
import { describeOnPostgres, PostgresServer } from '@taskmaster/postgres/testing';
import { describe, expect, test, vi } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { nodeCli } from '../support/paths.ts';
import { runProcess } from '../support/processes/child-process.ts';
import { runNode, startNode } from '../support/processes/start-node.ts';
import { mountSmallDisk, whyNoSmallDisk } from '../support/small-disk.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { MixedLoad } from './mixed-load.ts';
import { verifyLoad } from './verify-load.ts';

const MIB = 1024 * 1024;
const noSmallDisk = await whyNoSmallDisk();
const SEED = Number(process.env.TASKMASTER_SEED ?? 1);
/** Number of kills of each kind. More for a long run. */
const KILLS = Number(process.env.TASKMASTER_KILLS ?? 2);

describeOnPostgres('nodes on PostgreSQL', {}, (server) => {
  let schemas = 0;

  /** Flags of a node with a store of its own. */
  const newStore = (): string[] => [`--store=${server().url()}`, `--store-schema=s${++schemas}`];

  /** Waits until the load has gone on, and then for a random moment. */
  const goneOn = async (load: MixedLoad, random: SeededRandom): Promise<void> => {
    const enough = load.acknowledged + 50 + random.int(50);
    await eventually(() => expect(load.acknowledged).toBeGreaterThan(enough), { withinMs: 60_000 });
    await delay(random.int(100));
  };

  const verified = async (load: MixedLoad, endpoint: string): Promise<void> => {
    await load.stop();
    expect(load.failed).toBe(0);
    await using client = await connect(endpoint);
    const { problem } = await verifyLoad(client, load.history);
    expect(problem).toBe('');
  };

  test(`a node killed ${KILLS} times is followed by one on an empty machine, and nothing acknowledged is lost`, {
    timeout: 60_000 + KILLS * 15_000,
  }, async () => {
    const flags = newStore();
    const random = new SeededRandom(SEED);
    let node = await startNode({ flags });
    await using _last = { [Symbol.asyncDispose]: () => node[Symbol.asyncDispose]() };
    const { grpcPort } = node;
    const load = await MixedLoad.start({ endpoints: node.endpoint, seed: SEED, pauseMs: 60 });
    for (let kill = 1; kill <= KILLS; kill++) {
      await goneOn(load, random);
      await node.kill();
      // Without the directory of the first one, which has nothing.
      node = await startNode({ flags, grpcPort });
    }
    await goneOn(load, random);
    await verified(load, node.endpoint);
  });

  test(`a database killed ${KILLS} times under load is a pause: calls wait and go on`, {
    timeout: 60_000 + KILLS * 15_000,
  }, async () => {
    await using node = await startNode({ flags: newStore() });
    const random = new SeededRandom(SEED);
    const load = await MixedLoad.start({ endpoints: node.endpoint, seed: SEED, pauseMs: 60, maxAttempts: 1 });
    for (let kill = 1; kill <= KILLS; kill++) {
      await goneOn(load, random);
      await server().kill();
      await server().restart();
    }
    await goneOn(load, random);
    await verified(load, node.endpoint);
    expect(node.process.isRunning).toBe(true);
  });

  test('a failover to a synchronous standby is a pause, and nothing acknowledged is lost', {
    timeout: 120_000,
  }, async () => {
    await using primary = await PostgresServer.start();
    await using standby = await primary.startStandby();
    await primary.query(`ALTER SYSTEM SET synchronous_standby_names = '*'`);
    await primary.query('SELECT pg_reload_conf()');
    const store = `--store=postgres://postgres@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/postgres`;
    await using node = await startNode({ flags: [store] });
    expect(node.process.stderr).not.toContain('synchronous standby');
    const random = new SeededRandom(SEED);
    const load = await MixedLoad.start({ endpoints: node.endpoint, seed: SEED, pauseMs: 60, maxAttempts: 1 });
    await goneOn(load, random);
    await primary.kill();
    await standby.query('SELECT pg_promote()');
    await goneOn(load, random);
    await verified(load, node.endpoint);
  });

  test('a failover to a standby that is behind is noticed, and refused until somebody accepts the loss', {
    timeout: 120_000,
  }, async () => {
    await using primary = await PostgresServer.start();
    await using standby = await primary.startStandby();
    const store = `--store=postgres://postgres@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/postgres`;
    await using node = await startNode({ flags: [store] });
    await using client = await connect({ endpoints: node.endpoint, timeout: '20s', retry: { maxAttempts: 1 } });
    const queue = client.queue<string>('work');
    await queue.enqueue('before');
    await eventually(async () => {
      const { rows } = await primary.query('SELECT replay_lsn = pg_current_wal_lsn() AS same FROM pg_stat_replication');
      expect(rows).toEqual([{ same: true }]);
    });
    await standby.query('SELECT pg_wal_replay_pause()');
    await standby.stop();
    await queue.enqueue('lost');
    await primary.kill();
    await standby.restart();
    await standby.query('SELECT pg_promote()');
    const { code, stderr } = await node.process.ended;
    expect(code).toBe(1);
    expect(stderr).toMatch(/taskmaster-node: the database has lost commits: .*"taskmaster-node accept-loss node"/);
    await expect(startNode({ flags: [store] })).rejects.toThrow('the database has lost commits of node node');
    const accepted = await runProcess(process.execPath, [nodeCli, 'accept-loss', 'node', store]);
    expect(accepted).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Accepted: commits of node node/) });
    await using next = await startNode({ flags: [store] });
    await using again = await connect(next.endpoint);
    const tasks = await again.queue<string>('work').peek({ limit: 10 });
    expect(tasks.map(({ data }) => data)).toEqual(['before']);
  });

  test('a second node takes the place of the first, which says so and ends', async () => {
    const flags = newStore();
    await using first = await startNode({ flags });
    {
      await using client = await connect(first.endpoint);
      await client.queue<number>('work').enqueueMany(Array.from({ length: 100 }, (_, index) => ({ data: index })));
    }
    await using second = await startNode({ flags });
    const ended = await first.process.ended;
    expect(ended.code).toBe(1);
    expect(ended.stderr).toMatch(
      /taskmaster-node: another process has taken the place of node node, with fence 2 after 1/,
    );
    await using client = await connect(second.endpoint);
    expect(await client.queue('work').stats()).toMatchObject({ available: 100 });
  });

  test('a node stops although its database does not answer', async () => {
    await using own = await PostgresServer.start();
    await using node = await startNode({ flags: [`--store=${own.url()}`, '--shutdown-timeout-ms=300'] });
    await using client = await connect({ endpoints: node.endpoint, timeout: '20s', retry: { maxAttempts: 1 } });
    await client.queue('work').enqueue('first');
    await own.kill();
    const second = client.queue('work').enqueue('second');
    // The enqueue waits, and the node waits for it.
    await expect(Promise.all([second, node.stop()])).rejects.toMatchObject({ maybeApplied: true });
    expect((await node.process.ended).code).toBe(0);
  });

  test.skipIf(noSmallDisk !== undefined)(
    `a database without space takes no new tasks, and recovers by itself${noSmallDisk === undefined ? '' : `: ${noSmallDisk}`}`,
    async () => {
      await using disk = await mountSmallDisk(48 * MIB);
      await using own = await PostgresServer.start();
      // The server is another user.
      await chmod(dirname(disk.path), 0o755);
      await PostgresServer.own(disk.path);
      await own.query(`CREATE TABLESPACE small LOCATION '${disk.path}'`);
      await own.query('CREATE DATABASE small TABLESPACE small');
      await using node = await startNode({ flags: [`--store=${own.url('small')}`] });
      await using client = await connect({ endpoints: node.endpoint, timeout: '30s', retry: { maxAttempts: 1 } });
      const queue = client.queue('work', { codec: bytesCodec });
      const filler = join(disk.path, 'filler');
      await writeFile(filler, new Uint8Array((await disk.freeBytes()) - 8 * MIB));
      let acknowledged = 0;
      const refused = await (async () => {
        for (;;) {
          try {
            await queue.enqueue(new Uint8Array(200_000));
            acknowledged++;
          } catch (error) {
            return error;
          }
        }
      })();
      expect(refused).toMatchObject({ reason: 'DISK_FULL' });
      expect(acknowledged).toBeGreaterThan(5);
      // The memory is rebuilt from the database first.
      await eventually(async () => expect(await queue.stats()).toMatchObject({ available: acknowledged }));
      await expect(queue.enqueue(new Uint8Array(200_000))).rejects.toMatchObject({ reason: 'DISK_FULL' });
      await rm(filler);
      await eventually(() => queue.enqueue(new Uint8Array(1)), { withinMs: 30_000, everyMs: 200 });
      expect(await queue.stats()).toMatchObject({ available: acknowledged + 1 });
    },
  );

  test('a queue in a program may be in a database', async () => {
    const store = server().url('embedded');
    await server().query('CREATE DATABASE embedded');
    {
      await using client = await openEmbedded({ store });
      await client.queue<string>('work').enqueue('one');
    }
    await using client = await openEmbedded({ store });
    const [task] = await client.queue<string>('work').lease();
    expect(task?.data).toBe('one');
    await expect(openEmbedded({ store, dir: './data' })).rejects.toThrow(TypeError);
    await expect(openEmbedded({})).rejects.toThrow('name either dir, or a database');
  });

  test('a machine whose clock is hours off keeps the leases of the one before', async () => {
    const store = server().url('clocks');
    await server().query('CREATE DATABASE clocks');
    const began = Date.now();
    {
      await using client = await openEmbedded({ store });
      const queue = client.queue<string>('work');
      await queue.enqueue('one');
      expect((await queue.lease({ leaseDuration: '1h' })).length).toBe(1);
    }
    // Another machine cannot use it: it is of a boot of this one.
    const marks = await server().query(`DELETE FROM taskmaster.meta WHERE key = 'clock' RETURNING 1`, 'clocks');
    expect(marks.rows.length).toBe(1);
    try {
      vi.useFakeTimers({ toFake: ['Date'], now: began + 5 * 3_600_000 });
      await using client = await openEmbedded({ store });
      const queue = client.queue<string>('work');
      // By the clock of this machine the lease ended hours ago.
      expect(await queue.stats()).toMatchObject({ available: 0, leased: 1 });
      await queue.enqueue('two');
      const [task] = await queue.lease();
      expect(task?.data).toBe('two');
      expect(Math.abs((task?.enqueuedAt.getTime() ?? 0) - began)).toBeLessThan(600_000);
    } finally {
      vi.useRealTimers();
    }
  });

  describe('settings', () => {
    test.each([
      [['--store=postgres://127.0.0.1:1/x'], 1, /cannot use the store: 127.0.0.1:1\/x: connect ECONNREFUSED/],
      [['--store=sqlite:x'], 1, /the store must be a URL such as/],
    ])('%s are refused', async (flags, code, message) => {
      await using dir = await temporaryDirectory();
      const ended = await runNode({ dir: dir.path, flags: [`--store=postgres://a:secret@127.0.0.1/x`, ...flags] });
      expect(ended).toMatchObject({ code });
      expect(ended.stderr).toMatch(message);
      expect(ended.stderr).not.toContain('secret');
    });

    test('have no passwords when they are shown', async () => {
      const env = { ...process.env, TASKMASTER_STORE: 'postgres://a:secret@h1,h2/x' };
      for (const args of [['print'], ['print', '--json'], ['check']]) {
        const { stdout, code } = await runProcess(process.execPath, [nodeCli, 'config', ...args], { env });
        expect(code).toBe(0);
        expect(stdout).toContain('postgres://a:***@h1,h2/x');
        expect(stdout).not.toContain('secret');
      }
    });

    test('accept-loss changes nothing when nothing is lost', async () => {
      const flags = newStore();
      await using node = await startNode({ flags });
      await node.stop();
      const run = (args: readonly string[]) => runProcess(process.execPath, [nodeCli, 'accept-loss', ...args]);
      expect(await run(['node', ...flags])).toMatchObject({
        code: 0,
        stdout: 'The database has lost nothing of node node that was noticed. Nothing was changed.\n',
      });
      expect(await run(['other', ...flags])).toMatchObject({ code: 1 });
      expect(await run(['node'])).toMatchObject({ code: 2 });
    });
  });
});
