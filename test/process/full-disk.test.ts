import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import {
  bytesCodec,
  connect,
  DiskFullError,
  type LeasedTask,
  type Queue,
  type TaskMasterClient,
  textCodec,
} from '@taskmaster/client';
import { SeededRandom } from '@taskmaster/engine/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';
import { slowness } from '../support/slowness.ts';
import { mountSmallDisk, type SmallDisk, whyNoSmallDisk } from '../support/small-disk.ts';

const MIB = 1024 * 1024;
const FLAGS = ['--store-reserve-bytes=8MiB', '--store-memtable-bytes=8MiB', '--store-block-cache-bytes=4MiB'];
const reason = await whyNoSmallDisk();
const skipped = reason === undefined ? '' : ` (skipped: ${reason})`;

describe.skipIf(reason !== undefined)(`a node on a full disk${skipped}`, { timeout: 180_000 }, () => {
  const random = new SeededRandom(5);
  let disk: SmallDisk;
  let node: RunningNode;
  /** A client without retries. */
  let client: TaskMasterClient;
  let worker: TaskMasterClient;
  let jobs: Queue<Uint8Array>;
  let enqueued: number;

  beforeEach(async () => {
    disk = await mountSmallDisk(128 * MIB);
    await fill(32 * MIB);
    enqueued = 0;
    await start();
  }, 60_000);
  afterEach(async () => {
    await client.close();
    await worker.close();
    await node[Symbol.asyncDispose]();
    await disk[Symbol.asyncDispose]();
  }, 60_000);

  const dir = () => join(disk.path, 'data');
  const ballast = () => join(disk.path, 'ballast');

  async function start(): Promise<void> {
    node = await startNode({ dir: dir(), flags: FLAGS });
    client = await connect({ endpoints: node.endpoint, retry: { maxAttempts: 1 } });
    jobs = client.queue('jobs', { codec: bytesCodec });
    worker = await connect(node.endpoint);
  }

  async function killAndStart(): Promise<void> {
    await client.close();
    await worker.close();
    await node.kill();
    await start();
  }

  /**
   * Fills the disk to the last byte with another file. The node is paused meanwhile. Otherwise it would delete its reserve
   * file, and the other file would take that space, too, depending on how busy the machine is.
   */
  async function fillAll(): Promise<void> {
    process.kill(node.pid, 'SIGSTOP');
    try {
      await fill();
    } finally {
      process.kill(node.pid, 'SIGCONT');
    }
  }

  async function fill(bytes = Number.POSITIVE_INFINITY): Promise<void> {
    await using file = await open(ballast(), 'a');
    const chunk = Buffer.alloc(64 * 1024);
    for (let done = 0; done < bytes; done += chunk.length) {
      try {
        await file.write(chunk);
      } catch (error) {
        expect(error).toMatchObject({ code: 'ENOSPC' });
        return;
      }
    }
  }

  async function enqueue(): Promise<void> {
    await jobs.enqueue(random.bytes(8_000));
    enqueued++;
  }

  /** Enqueues until the node refuses. Every refusal must say that the disk is full. */
  async function enqueueUntilRefused(): Promise<void> {
    const one = async (): Promise<void> => {
      for (;;) {
        try {
          await enqueue();
        } catch (error) {
          expect(error).toBeInstanceOf(DiskFullError);
          expect(error).toMatchObject({ reason: 'DISK_FULL', maybeApplied: false });
          return;
        }
      }
    };
    await Promise.all(Array.from({ length: 8 }, one));
  }

  const counts = async (): Promise<number> => {
    const { available, leased, delayed } = await jobs.stats();
    return available + leased + delayed;
  };

  /** Calls that end work must succeed: leases, renewals, completions, releases and reads. Resolves with the completed tasks. */
  async function work(rounds: number): Promise<number> {
    // With retries, as workers have: the node refuses calls for a moment while it rebuilds its memory from the disk.
    const jobs = worker.queue('jobs', { codec: bytesCodec });
    let completed = 0;
    for (let round = 0; round < rounds; round++) {
      const tasks = await jobs.lease({ max: 10, leaseDuration: '1m' });
      const [renewed, released, ...done] = tasks as [LeasedTask<Uint8Array>, LeasedTask<Uint8Array>];
      await renewed.renew('5m');
      await released.release();
      await Promise.all([renewed, ...done].map((task) => task.complete()));
      completed += tasks.length - 1;
      const [looked] = await jobs.get([released.pid]);
      expect(looked?.data).toHaveLength(8_000);
    }
    return completed;
  }

  test('refuses new work at once, serves calls that end work, and recovers by itself', async () => {
    await enqueueUntilRefused();
    expect(enqueued).toBeGreaterThan(100);
    expect(await counts()).toBe(enqueued);
    const completed = await work(20);
    await expect(enqueue()).rejects.toMatchObject({ reason: 'DISK_FULL', retryDelayMs: expect.any(Number) });
    expect(await counts()).toBe(enqueued - completed);

    await rm(ballast());
    const freed = performance.now();
    await eventually(enqueue, { withinMs: 10_000 * (await slowness()) });
    console.log(`space freed: new work accepted after ${(performance.now() - freed).toFixed(0)} ms`);
    expect(await counts()).toBe(enqueued - completed);
    await killAndStart();
    expect(await counts()).toBe(enqueued - completed);
  });

  test('refuses new work within a second when another file takes the last byte, and serves calls that end work', async () => {
    for (let number = 0; number < 500; number++) await enqueue();
    await fillAll();
    const full = performance.now();
    await enqueueUntilRefused();
    const tookMs = performance.now() - full;
    console.log(`disk filled by another file: new work refused after ${tookMs.toFixed(0)} ms`);
    expect(tookMs).toBeLessThan(1_000 * (await slowness()));
    const completed = await work(20);
    expect(await counts()).toBe(enqueued - completed);
    // Repeated refused calls must not use up the space that is left.
    for (let number = 0; number < 200; number++) await expect(enqueue()).rejects.toBeInstanceOf(DiskFullError);
    expect(await work(5)).toBeGreaterThan(0);

    await rm(ballast());
    await eventually(enqueue, { withinMs: 10_000 * (await slowness()) });
  });

  test('restarts after a kill on a full disk and serves calls that end work', async () => {
    await enqueueUntilRefused();
    await fillAll();
    const before = await work(3);
    await killAndStart();
    expect(await counts()).toBe(enqueued - before);
    const after = await work(3);
    expect(await counts()).toBe(enqueued - before - after);
    // Recovery may have freed space by deleting logs.
    await fillAll();
    await enqueueUntilRefused();
    expect(await work(3)).toBeGreaterThan(0);
    await rm(ballast());
    await eventually(enqueue, { withinMs: 10_000 * (await slowness()) });
  });

  test('keeps long polls waiting, and serves them when there is space', async () => {
    await enqueueUntilRefused();
    const mail = client.queue('mail', { codec: textCodec });
    const waiting = mail.lease({ wait: '2m' });
    await expect(mail.enqueue('hello')).rejects.toBeInstanceOf(DiskFullError);
    await rm(ballast());
    await eventually(() => mail.enqueue('hello'), { withinMs: 10_000 * (await slowness()) });
    expect((await waiting).map(({ data }) => data)).toEqual(['hello']);
  });
});
