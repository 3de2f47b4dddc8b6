import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect, textCodec } from '@taskmaster/client';
import { describeOnPostgres, WITHOUT_FSYNC } from '@taskmaster/postgres/testing';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { clientCli, nodeCli } from '../support/paths.ts';
import { type Ended, runProcess, startProcess } from '../support/processes/child-process.ts';
import { runNode, startNode } from '../support/processes/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { MixedLoad } from './mixed-load.ts';
import { verifyLoad } from './verify-load.ts';

const PARTITIONS = '--engine-partitions=32';
const RESERVE = '--store-reserve-bytes=1MiB';

const backUp = (endpoint: string, place: string): Promise<Ended> =>
  runProcess(process.execPath, [clientCli, '--json', '--endpoint', endpoint, 'backup', 'create', '--to', place]);

const restore = (from: string, ...flags: string[]): Promise<Ended> =>
  runProcess(process.execPath, [nodeCli, 'restore', '--json', '--from', from, ...flags]);

describeOnPostgres('backups between a directory and PostgreSQL', WITHOUT_FSYNC, (server) => {
  let schemas = 0;

  const newStore = (): string[] => [`--store=${server().url()}`, `--store-schema=s${++schemas}`];

  /** The rows of nodes in the latest schema. */
  const nodes = async (): Promise<unknown> =>
    (
      await server()
        .query(`SELECT name, fence FROM s${schemas}.node`)
        .catch(() => ({ rows: [] }))
    ).rows;

  /** Backs up a node with a few tasks to a tar file. */
  const backUpTo = async (tar: string): Promise<void> => {
    await using node = await startNode({ flags: [PARTITIONS, RESERVE] });
    await using client = await connect(node.endpoint);
    for (let group = 0; group < 40; group++) {
      await client.queue(`g${group}#q`, { codec: textCodec }).enqueue('x'.repeat(10_000));
    }
    const create = [process.execPath, clientCli, '--endpoint', node.endpoint, 'backup', 'create', '--to', '-'];
    expect(await runProcess('sh', ['-c', `"$@" > '${tar}'`, 'sh', ...create])).toMatchObject({ code: 0 });
  };

  test('move a load with leases, delays and dead letters there and back', { timeout: 120_000 }, async () => {
    await using dir = await temporaryDirectory();
    const [toDatabase, toDirectory] = [join(dir.path, 'first'), join(dir.path, 'second')];
    const store = newStore();
    const dataDir = join(dir.path, 'data');
    let load: MixedLoad;
    {
      await using node = await startNode({ flags: [PARTITIONS, RESERVE] });
      load = await MixedLoad.start({ endpoints: node.endpoint, seed: 1 });
      await eventually(() => expect(load.acknowledged).toBeGreaterThan(300), { withinMs: 60_000 });
      await load.stop();
      expect(await backUp(node.endpoint, toDatabase)).toMatchObject({ code: 0 });
    }

    const inDatabase = await restore(toDatabase, ...store);
    expect(inDatabase).toMatchObject({ code: 0 });
    const told = JSON.parse(inDatabase.stdout);
    expect(told).toMatchObject({ restored: true, partitions: 32, store: server().url(), schema: `s${schemas}` });
    expect(told.tasks).toBeGreaterThan(10);
    {
      await using node = await startNode({ flags: store });
      expect(await backUp(node.endpoint, toDirectory)).toMatchObject({ code: 0 });
    }

    const inDirectory = await restore(toDirectory, '--data-dir', dataDir, RESERVE);
    expect(inDirectory).toMatchObject({ code: 0 });
    // Leases have ended meanwhile, and some of their tasks are dead letters now.
    expect(JSON.parse(inDirectory.stdout)).toMatchObject({ queues: told.queues, dataDir });
    for (const options of [{ flags: store }, { dir: dataDir, flags: [RESERVE] }]) {
      await using node = await startNode(options);
      await using client = await connect(node.endpoint);
      const { problem } = await verifyLoad(client, load.history);
      expect(problem).toBe('');
    }
  });

  test('that were not restored whole leave a database that no node starts with, until the same restore succeeds', {
    timeout: 120_000,
  }, async () => {
    await using dir = await temporaryDirectory();
    const tar = join(dir.path, 'backup.tar');
    const store = newStore();
    await backUpTo(tar);
    const archive = await readFile(tar);
    const args = [nodeCli, 'restore', '--from', '-', ...store];
    const refused = async (): Promise<void> => {
      const ended = await runNode({ dir: join(dir.path, 'none'), flags: store });
      expect(ended).toMatchObject({ code: 1 });
      expect(ended.stderr).toContain(`a restore into the schema s${schemas} has not finished: run the same restore`);
      expect(existsSync(join(dir.path, 'none'))).toBe(false);
    };

    await using killed = await startProcess(process.execPath, args);
    killed.process.stdin?.write(archive.subarray(0, archive.byteLength >> 1));
    await eventually(async () => expect(await nodes()).toEqual([{ name: '(restore)', fence: '1' }]));
    await killed.kill();
    await refused();

    await using waiting = await startProcess(process.execPath, args);
    waiting.process.stdin?.write(archive.subarray(0, archive.byteLength >> 1));
    await eventually(async () => expect(await nodes()).toEqual([{ name: '(restore)', fence: '2' }]));
    await using later = await startProcess(process.execPath, args);
    later.process.stdin?.end(archive.subarray(0, archive.byteLength >> 1));
    expect((await later.ended).stderr).toContain('BACKUP_DAMAGED');
    waiting.process.stdin?.end(archive.subarray(archive.byteLength >> 1));
    expect((await waiting.ended).stderr).toContain('DATABASE_IN_USE: another restore into the schema');
    await refused();

    await using again = await startProcess(process.execPath, args);
    again.process.stdin?.end(archive);
    expect(await again.ended).toMatchObject({ code: 0 });
    {
      await using node = await startNode({ flags: [...store, '--name=any'] });
      await using client = await connect(node.endpoint);
      expect(await client.queue('g7#q').stats()).toMatchObject({ available: 1 });
    }
    await using full = await startProcess(process.execPath, args);
    full.process.stdin?.end(archive);
    expect((await full.ended).stderr).toContain(
      `DATABASE_IN_USE: the schema s${schemas} has the data of node any. Nothing was changed; restore into another schema`,
    );
  });

  test('end at once with SIGTERM while the database does not answer', { timeout: 60_000 }, async () => {
    await using dir = await temporaryDirectory();
    const tar = join(dir.path, 'backup.tar');
    await backUpTo(tar);
    const archive = await readFile(tar);
    await using restoring = await startProcess(process.execPath, [nodeCli, 'restore', '--from', '-', ...newStore()]);
    await eventually(async () => expect(await nodes()).toHaveLength(1));
    await server().stop();
    restoring.process.stdin?.end(archive);
    await eventually(() => expect(restoring.stderr).toContain('the connection to the database was lost: calls wait'));
    restoring.process.kill('SIGTERM');
    const ended = await restoring.ended;
    await server().restart();
    expect(ended).toMatchObject({ code: 1 });
    expect(ended.stderr).toContain('interrupted by SIGTERM');
  });
});
