import { cp, open, readdir, rm, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { bytesCodec, connect, isTaskMasterError, pidOf, type Queue } from '@taskmaster/client';
import { SeededRandom } from '@taskmaster/engine/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { NodeDidNotStartError, type RunningNode, startNode } from '../support/processes/start-node.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../support/temporary-directory.ts';

/*
 * Damage to the files of a killed node. Each damage must have one of three results:
 *  - the node does not start and says what to do;
 *  - it starts and has every acknowledged task, byte for byte;
 *  - it starts and refuses the calls that meet the damage: reads with DATA_LOSS, and writes with STORE_FAILED after RocksDB has
 *    found the damage in the background.
 * No byte may be wrong, no task may be missing without a refusal, and no completed task may reappear.
 */

/** Number of damages: by default each kind of file twice. 200 for a long run. */
const RUNS = Number(process.env.TASKMASTER_DAMAGES ?? 10);
const TASKS = 4_000;
const IN_TABLES = 3_800;
const COMPLETED = 500;
/** Small memtables, so that every family has tables, and a log behind them. */
const FLAGS = ['--store-memtable-bytes=8MiB', '--log-level=warn'];

/** The payload of a task is computed from its number, so that wrong bytes are found. */
const payloadOf = (number: number): Uint8Array => new SeededRandom(number).bytes(500 + (number % 1_500));
const pidNumbered = (number: number) => pidOf(number);

let template: TemporaryDirectory;
beforeAll(async () => {
  template = await temporaryDirectory();
  const dir = join(template.path, 'data');
  await enqueueAndKill(dir, 0, IN_TABLES, COMPLETED);
  // Recovery moves the rows of logs into tables. Later rows stay in the log.
  await enqueueAndKill(dir, IN_TABLES, TASKS, 0);
}, 120_000);
afterAll(() => template[Symbol.asyncDispose]());

async function enqueueAndKill(dir: string, from: number, to: number, complete: number): Promise<void> {
  await using node = await startNode({ dir, flags: FLAGS });
  await using client = await connect(node.endpoint);
  const jobs = client.queue('jobs', { codec: bytesCodec });
  const numbers = Array.from({ length: to - from }, (_, index) => from + index);
  await jobs.enqueueMany(numbers.map((number) => ({ data: payloadOf(number), pid: pidNumbered(number) })));
  if (complete > 0)
    await Promise.all((await jobs.lease({ max: complete, leaseDuration: '1h' })).map((task) => task.complete()));
  await node.kill();
}

const files = {
  wal: /^\d+\.log$/,
  table: /^\d+\.sst$/,
  manifest: /^MANIFEST-\d+$/,
  current: /^CURRENT$/,
  mark: /^(sync-mark|synced-files)$/,
  other: /^(OPTIONS-\d+|IDENTITY|reserve.*)$/,
} as const;

interface Damage {
  readonly file: string;
  readonly how: string;
}

/** Damages one file of the directory. The run's number decides the kind of file, in turn. */
async function damage(dir: string, run: number): Promise<Damage> {
  const random = new SeededRandom(run);
  const kinds = [
    files.wal,
    files.table,
    files.manifest,
    files.mark,
    files.wal,
    files.table,
    files.current,
    files.table,
  ];
  const pattern = run % 16 === 15 ? files.other : (kinds[run % kinds.length] ?? files.table);
  const names = (await readdir(dir)).filter((name) => pattern.test(name)).sort();
  const file = random.pick(names);
  const path = join(dir, file);
  const { size } = await stat(path);
  switch (size === 0 ? 3 : random.int(5)) {
    case 0: {
      const bytes = 1 + random.int(size);
      await truncate(path, size - bytes);
      return { file, how: `the last ${bytes} of its ${size} bytes cut off` };
    }
    case 1: {
      const from = random.int(size);
      const length = Math.min(1 + random.int(4096), size - from);
      await overwrite(path, from, () => Buffer.alloc(length));
      return { file, how: `bytes ${from} to ${from + length - 1} of ${size} zeroed` };
    }
    case 2:
    case 4: {
      const [at, bit] = [random.int(size), random.int(8)];
      await overwrite(path, at, ([byte = 0]) => Buffer.from([byte ^ (1 << bit)]));
      return { file, how: `bit ${bit} of byte ${at} of ${size} flipped` };
    }
    default:
      await rm(path);
      return { file, how: 'deleted' };
  }
}

async function overwrite(path: string, at: number, change: (before: Uint8Array) => Uint8Array): Promise<void> {
  const file = await open(path, 'r+');
  try {
    const { buffer } = await file.read(Buffer.alloc(1), 0, 1, at);
    const bytes = change(buffer);
    await file.write(bytes, 0, bytes.length, at);
  } finally {
    await file.close();
  }
}

/** The result of reading all tasks. */
interface Found {
  /** Descriptions of wrong tasks. */
  readonly wrong: string[];
  readonly read: Set<number>;
  /** Reasons of refused reads and leases. */
  readonly refusals: Set<string>;
}

/** Reads every task by its PID, then leases all from the head of the queue: two ways through the files. */
async function readAll(jobs: Queue<Uint8Array>): Promise<Found> {
  const found: Found = { wrong: [], read: new Set(), refusals: new Set() };
  const attempt = async (read: () => Promise<void>): Promise<boolean> => {
    try {
      await read();
      return true;
    } catch (error) {
      if (!isTaskMasterError(error) || !['CORRUPT_DATA', 'STORE_FAILED'].includes(error.reason)) throw error;
      found.refusals.add(error.reason);
      return false;
    }
  };
  const check = (number: number, data: Uint8Array): void => {
    if (Buffer.compare(data, payloadOf(number)) !== 0) found.wrong.push(`task ${number} has wrong bytes`);
    if (number < COMPLETED) found.wrong.push(`task ${number} is back`);
    found.read.add(number);
  };
  for (let from = 0; from < TASKS; from += 100) {
    const numbers = Array.from({ length: 100 }, (_, index) => from + index);
    await attempt(async () => {
      const tasks = await jobs.get(numbers.map(pidNumbered));
      for (const [index, task] of tasks.entries()) {
        const { state } = task;
        const number = from + index;
        if (state !== 'not-found') check(number, task.data);
        else if (number >= COMPLETED) found.wrong.push(`task ${number} is ${state}`);
      }
    });
  }
  const leased: number[] = [];
  let more = true;
  while (more) {
    more = await attempt(async () => {
      const tasks = await jobs.lease({ max: 200, leaseDuration: '1h' });
      for (const { pid, bytes } of tasks) {
        const number = COMPLETED + leased.length;
        if (Buffer.compare(pid, pidNumbered(number)) !== 0) found.wrong.push(`task ${number} is not next`);
        leased.push(number);
        check(number, bytes);
      }
      more = tasks.length > 0;
      if (!more && leased.length !== TASKS - COMPLETED) found.wrong.push(`${leased.length} tasks were leased`);
    }).then((ok) => ok && more);
  }
  return found;
}

/** The text must name the file or directory, and say what to do. */
function expectHelp(text: string, dir: string): void {
  expect(text).toContain(dir);
  expect(text).toMatch(/restore [^\n]* from a backup/);
}

type Outcome = 'refused' | 'intact' | 'detected';
const outcomes: { readonly label: string; readonly outcome: Outcome }[] = [];
afterAll(() => {
  const counts = Object.groupBy(outcomes, ({ outcome }) => outcome);
  const number = (outcome: Outcome) => counts[outcome]?.length ?? 0;
  console.log(
    [
      `${outcomes.length} damages: ${number('refused')} starts refused, ${number('detected')} detected later, ${number('intact')} of unused bytes`,
      ...outcomes.map(({ label, outcome }) => `  ${outcome.padEnd(9)} ${label}`),
    ].join('\n'),
  );
});

test.each(Array.from({ length: RUNS }, (_, run) => run))('damage %i', { timeout: 120_000 }, async (run) => {
  await using copy = await temporaryDirectory();
  const dir = join(copy.path, 'data');
  await cp(join(template.path, 'data'), dir, { recursive: true });
  const done = await damage(dir, run);
  const label = `${done.file}: ${done.how}`;
  let node: RunningNode;
  try {
    node = await startNode({ dir, flags: FLAGS });
  } catch (error) {
    if (!(error instanceof NodeDidNotStartError)) throw error;
    outcomes.push({ label, outcome: 'refused' });
    expect(error.ended.code, label).toBe(1);
    expectHelp(error.ended.stderr, dir);
    expect(error.ended.stderr, label).not.toMatch(/^\s+at /m);
    return;
  }
  await using _node = node;
  await using client = await connect({ endpoints: node.endpoint, timeout: '60s', retry: { maxAttempts: 1 } });
  const { wrong, read, refusals } = await readAll(client.queue('jobs', { codec: bytesCodec }));
  outcomes.push({ label, outcome: refusals.size === 0 ? 'intact' : 'detected' });
  expect(wrong, label).toEqual([]);
  if (refusals.size === 0) expect(read.size, label).toBe(TASKS - COMPLETED);
  else expectHelp((await node.stop()).stderr, dir);
});
