import { existsSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type HistoryEvent, violationsOf } from '@taskmaster/cli/testing/history';
import { textCodec } from '@taskmaster/client';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { clientCli, nodeCli } from '../support/paths.ts';
import { type Ended, type Running, runProcess, startProcess } from '../support/processes/child-process.ts';
import { PARTITIONS, TestCluster } from '../support/processes/start-cluster.ts';
import { runNode, startNode } from '../support/processes/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { MixedLoad } from './mixed-load.ts';
import { drain } from './verify-load.ts';

const RESERVE = '--store-reserve-bytes=1MiB';

/** Runs the command line against the first endpoint. */
const taskmaster = (endpoints: readonly string[], ...args: string[]): Promise<Ended> =>
  runProcess(process.execPath, [
    clientCli,
    '--json',
    ...endpoints.flatMap((one) => ['--endpoint', one]).slice(0, 2),
    ...args,
  ]);

const restore = (from: string, dir: string): Promise<Ended> =>
  runProcess(process.execPath, [nodeCli, 'restore', '--json', '--from', from, '--data-dir', dir, RESERVE]);

/**
 * The events of a load as the backup may have them: it has every update acknowledged before it, and perhaps later ones. A lease
 * that was waiting when it ended may have got a task that came later.
 */
function seenByBackup(
  events: readonly HistoryEvent[],
  acknowledged: ReadonlySet<number>,
  finishedAt: number,
): HistoryEvent[] {
  return events
    .filter(({ calledAt }) => calledAt <= finishedAt)
    .map((event) => {
      const { kind } = event.outcome;
      const isSeen =
        acknowledged.has(event.id) || (kind === 'leased' ? event.endedAt <= finishedAt : kind !== 'updated');
      return isSeen ? event : { ...event, outcome: { kind: 'unknown' as const } };
    });
}

describe('a backup', () => {
  test('of two nodes under load is restored to three, with everything acknowledged before it', {
    timeout: 240_000,
  }, async () => {
    await using dir = await temporaryDirectory();
    const place = join(dir.path, 'backup');
    const groups = Array.from({ length: 10 }, (_, number) => `load-${number}`);
    const queues = groups.flatMap((group) => ['in', 'mid', 'out', 'dead'].map((stage) => `${group}#${stage}`));
    await using cluster = await TestCluster.start({ nodes: 2 });
    const load = await MixedLoad.start({ endpoints: cluster.endpoints, seed: 1, groups });
    await eventually(() => expect(load.acknowledged).toBeGreaterThan(300), { withinMs: 60_000 });
    const acknowledged = new Set(load.history.events.map(({ id }) => id));
    const created = await taskmaster(cluster.endpoints, 'backup', 'create', '--to', place);
    const finishedAt = Date.now();
    expect(created).toMatchObject({ code: 0 });
    const enough = load.acknowledged + 100;
    await eventually(() => expect(load.acknowledged).toBeGreaterThan(enough), { withinMs: 30_000 });
    await load.stop();
    const { cluster: oldId } = JSON.parse(created.stdout);
    await cluster[Symbol.asyncDispose]();

    await using restored = await TestCluster.start({ nodes: 0 });
    expect(await restore(place, restored.dirOf('a'))).toMatchObject({ code: 0 });
    for (const name of 'abc') await restored.add(name);
    await using client = await restored.connect();
    await eventually(
      async () => {
        const { partitions } = await client.cluster.partitions();
        expect(new Set(partitions.map(({ holder }) => holder?.name))).toEqual(new Set('abc'));
        expect(partitions.filter(({ state }) => state !== 'serving')).toEqual([]);
      },
      { withinMs: 60_000 },
    );
    expect((await client.cluster.members()).clusterId).not.toBe(oldId);
    const events = seenByBackup(load.history.events, acknowledged, finishedAt);
    const found = await drain(client, queues);
    console.log(
      `${events.length} calls seen by the backup, ${acknowledged.size} before it, ${found.length} tasks restored`,
    );
    expect(found.length).toBeGreaterThan(100);
    expect(violationsOf(events, found, { isLater: ({ id }) => !acknowledged.has(id) })).toEqual([]);
  });

  test('goes on after the command and a node were killed in the middle', { timeout: 180_000 }, async () => {
    await using dir = await temporaryDirectory();
    const place = join(dir.path, 'backup');
    await using cluster = await TestCluster.start({ nodes: 2 });
    await using client = await cluster.connect();
    const data = 'x'.repeat(100_000);
    for (let group = 0; group < 100; group++) {
      await client.queue(`g${group}#q`, { codec: textCodec }).enqueue(data, { pid: 'only' });
    }
    const limits = ['--max-bytes-per-second', '1500000', '--concurrency', '1'];
    const args = ['--json', '--endpoint', cluster.endpoints.join(','), 'backup', 'create', '--to', place, ...limits];
    const complete = (): number => {
      const path = join(place, 'progress.json');
      return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')).partitions.length : 0;
    };
    const until = async (count: number, running: Running): Promise<void> => {
      await eventually(() => expect(running.isRunning && complete()).toBeGreaterThanOrEqual(count), {
        withinMs: 60_000,
      });
    };
    await using first = await startProcess(process.execPath, [clientCli, ...args]);
    await until(4, first);
    await first.kill();
    expect((await taskmaster([], 'backup', 'verify', place)).stderr).toContain('has an unfinished backup');

    await using second = await startProcess(process.execPath, [clientCli, ...args]);
    await until(9, second);
    await cluster.node('b').kill();
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    await cluster.start('b');
    const ended = await second.ended;
    expect(ended).toMatchObject({ code: 0 });
    expect(JSON.parse(ended.stdout)).toMatchObject({ tasks: 100, partitions: PARTITIONS });
    expect(JSON.parse(ended.stdout).kept).toBeGreaterThanOrEqual(4);
    expect((await taskmaster([], 'backup', 'verify', place)).code).toBe(0);
  });
});

describe('a restore', () => {
  test('that was killed leaves a directory that no node starts with, until it is run again', {
    timeout: 120_000,
  }, async () => {
    await using dir = await temporaryDirectory();
    const tar = join(dir.path, 'backup.tar');
    const data = join(dir.path, 'data');
    {
      await using node = await startNode({ flags: ['--engine-partitions=32', RESERVE] });
      const enqueued = ['mail#a', 'mail#b', 'shop#a'].map((queue) =>
        taskmaster([node.endpoint], 'enqueue', queue, 'hello'),
      );
      for (const { code } of await Promise.all(enqueued)) expect(code).toBe(0);
      const script = `"$@" > '${tar}'`;
      const create = [process.execPath, clientCli, '--endpoint', node.endpoint, 'backup', 'create', '--to', '-'];
      expect(await runProcess('sh', ['-c', script, 'sh', ...create])).toMatchObject({ code: 0 });
    }
    const archive = await readFile(tar);
    const args = [nodeCli, 'restore', '--from', '-', '--data-dir', data, RESERVE];
    await using interrupted = await startProcess(process.execPath, args);
    interrupted.process.stdin?.write(archive.subarray(0, archive.byteLength >> 1));
    await eventually(() => expect(existsSync(join(data, 'sync-mark'))).toBe(true), { withinMs: 20_000 });
    await interrupted.kill();

    const refused = await runNode({ dir: data, flags: [RESERVE] });
    expect(refused).toMatchObject({ code: 1 });
    expect(refused.stderr).toContain('has not finished: run the same restore again');

    const truncated = await startProcess(process.execPath, args);
    truncated.process.stdin?.end(archive.subarray(0, archive.byteLength >> 1));
    expect((await truncated.ended).stderr).toContain('BACKUP_DAMAGED');
    expect(await runNode({ dir: data, flags: [RESERVE] })).toMatchObject({ code: 1 });

    const again = await startProcess(process.execPath, args);
    again.process.stdin?.end(archive);
    expect(await again.ended).toMatchObject({ code: 0 });
    await using node = await startNode({ dir: data, flags: [RESERVE] });
    const { stdout } = await taskmaster([node.endpoint], 'queues');
    expect(
      stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).queue),
    ).toEqual(['mail#a', 'mail#b', 'shop#a']);
    expect((await restore(tar, data)).stderr).toContain('DATA_DIRECTORY_IN_USE');
  });
});
