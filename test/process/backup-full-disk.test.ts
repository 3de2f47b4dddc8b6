import { randomBytes } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bytesCodec, connect } from '@taskmaster/client';
import { describe, expect, test } from 'vitest';
import { clientCli, nodeCli } from '../support/paths.ts';
import { type Ended, runProcess } from '../support/processes/child-process.ts';
import { runNode, startNode } from '../support/processes/start-node.ts';
import { mountSmallDisk, whyNoSmallDisk } from '../support/small-disk.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const MIB = 1024 * 1024;
const SMALL = ['--store-reserve-bytes=1MiB', '--store-memtable-bytes=8MiB', '--store-block-cache-bytes=4MiB'];
const reason = await whyNoSmallDisk();
const skipped = reason === undefined ? '' : ` (skipped: ${reason})`;

const create = (endpoint: string, to: string): Promise<Ended> =>
  runProcess(process.execPath, [clientCli, '--json', '--endpoint', endpoint, 'backup', 'create', '--to', to]);

const restore = (from: string, dir: string): Promise<Ended> =>
  runProcess(process.execPath, [nodeCli, 'restore', '--json', '--from', from, '--data-dir', dir, ...SMALL]);

describe.skipIf(reason !== undefined)(`on a full disk${skipped}`, () => {
  test('a backup and a restore end with a clear error, and succeed when there is space', {
    timeout: 180_000,
  }, async () => {
    await using disk = await mountSmallDisk(96 * MIB);
    await using other = await temporaryDirectory();
    await using node = await startNode({ flags: ['--engine-partitions=8', ...SMALL] });
    await using client = await connect(node.endpoint);
    for (let group = 0; group < 16; group++) {
      const queue = client.queue(`g${group}#q`, { codec: bytesCodec });
      await queue.enqueueMany([1, 2].map(() => ({ data: randomBytes(MIB) })));
    }
    const ballast = join(disk.path, 'ballast');
    await writeFile(ballast, Buffer.alloc(76 * MIB));
    const place = join(disk.path, 'backup');
    const failed = await create(node.endpoint, place);
    expect(failed).toMatchObject({ code: 1 });
    expect(JSON.parse(failed.stderr).error).toMatchObject({ reason: 'BACKUP_PLACE_FULL' });
    const failures = async (): Promise<readonly string[]> => {
      const metrics = await (await fetch(`http://127.0.0.1:${node.httpPort}/metrics`)).text();
      return metrics.match(/^taskmaster_backup_failed_timestamp_seconds .*$/gm) ?? [];
    };
    expect(await failures()).toHaveLength(1);
    await rm(ballast);
    const created = await create(node.endpoint, place);
    expect(created).toMatchObject({ code: 0 });
    expect(JSON.parse(created.stdout)).toMatchObject({ tasks: 32 });
    expect(await failures()).toEqual([]);

    const data = join(disk.path, 'data');
    await writeFile(ballast, Buffer.alloc(48 * MIB));
    const refused = await restore(place, data);
    expect(refused).toMatchObject({ code: 1 });
    expect(refused.stderr).toContain('no space is left');
    expect((await runNode({ dir: data, flags: SMALL })).stderr).toContain('run the same restore again');
    await rm(ballast);
    const whole = join(other.path, 'data');
    expect(await restore(place, whole)).toMatchObject({ code: 0 });
    await using restored = await startNode({ dir: whole, flags: SMALL });
    await using again = await connect(restored.endpoint);
    expect(await again.queue('g7#q').stats()).toMatchObject({ available: 2 });
  });
});
