import { cp, open, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { decodeAcceptedLoss, type Key, metaKeys } from '@taskmaster/engine/domain';
import { Family, StoreCorruptError, WriteBatch } from '@taskmaster/engine/ports';
import { SeededRandom } from '@taskmaster/engine/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ACCEPT_LOSS_FILE } from './open-database.ts';
import { SYNC_MARK_FILE } from './sync-mark.ts';
import { KEPT_LOGS, SYNCED_FILES } from './synced-files.ts';
import {
  copyAtCrash,
  eventually,
  namesIn,
  openSmall,
  put,
  refusalOf,
  type TemporaryDirectory,
  temporaryDirectory,
} from './test-support.ts';

const SYNC = { sync: true };
const ROWS = 300;
const nameOf = (number: number) => `row ${String(number).padStart(4, '0')}`;
const random = new SeededRandom(1);

/** After a crash: all rows are in a single log. */
let inLog: TemporaryDirectory;
/** After a close: all rows are in table files. A second open moves them there. */
let inFiles: TemporaryDirectory;
/** After a close: the first half is in table files, the rest in the log. */
let inBoth: TemporaryDirectory;
/** After a crash: other rows are in many logs. They are of two families, and one family has no rows in table files yet. */
let inManyLogs: TemporaryDirectory;
/** The value of each row. */
const values = new Map(
  Array.from({ length: ROWS }, (_, number) => [nameOf(number), random.bytes(random.int(400) + 50)]),
);

/** Writes a few rows at a time. Each few are a group and a record of the log. */
async function write(path: string, from: number, to: number, beforeClose = async () => {}): Promise<void> {
  await using store = await openSmall(path);
  for (let first = from; first < to; first += 10) {
    const few = [...values].slice(first, Math.min(first + 10, to));
    const batch = new WriteBatch();
    for (const [name, value] of few) batch.put(Family.ready, name as Key, value);
    await store.write(batch, SYNC);
  }
  await beforeClose();
}

async function writeManyLogs(path: string): Promise<void> {
  await using working = await temporaryDirectory();
  await using store = await openSmall(working.path);
  for (let number = 0; number < 60; number++) {
    const batch = put(nameOf(number), random.bytes(50_000));
    batch.put(Family.requests, nameOf(number) as Key, Buffer.from('small'));
    await store.write(batch, SYNC);
  }
  const logs = async () => (await readdir(working.path)).filter((name) => name.endsWith('.log')).sort();
  const guarded = async () => readFile(join(working.path, SYNCED_FILES), 'utf8').catch(() => '');
  await eventually(10_000, async () => {
    const record = await guarded();
    return (await logs()).slice(0, -1).every((name) => record.includes(name));
  });
  expect((await logs()).length).toBeGreaterThan(3);
  await copyAtCrash(working.path, path);
}

beforeAll(async () => {
  inFiles = await temporaryDirectory();
  await write(inFiles.path, 0, ROWS);
  await write(inFiles.path, 0, 0);
  inBoth = await temporaryDirectory();
  await write(inBoth.path, 0, ROWS / 2);
  await write(inBoth.path, ROWS / 2, ROWS);
  inLog = await temporaryDirectory();
  await using working = await temporaryDirectory();
  await write(working.path, 0, ROWS, () => copyAtCrash(working.path, inLog.path));
  inManyLogs = await temporaryDirectory();
  await writeManyLogs(inManyLogs.path);
}, 60_000);
afterAll(async () => {
  for (const each of [inLog, inFiles, inBoth, inManyLogs]) await each[Symbol.asyncDispose]();
});

let dir: TemporaryDirectory;
beforeEach(async () => {
  dir = await temporaryDirectory();
});
afterEach(async () => {
  await dir[Symbol.asyncDispose]();
});

const at = (name: string) => join(dir.path, name);
/** Makes the test's directory one of those above. */
const use = (template: TemporaryDirectory) => cp(template.path, dir.path, { recursive: true });

async function files(pattern: RegExp): Promise<string[]> {
  const names = (await readdir(dir.path)).filter((name) => pattern.test(name));
  if (names.length === 0) throw new Error(`no file matches ${pattern}`);
  return names.map(at);
}

/** The file that has the rows. */
async function largest(pattern: RegExp): Promise<string> {
  const sized = await Promise.all(
    (await files(pattern)).map(async (path) => ({ path, size: (await stat(path)).size })),
  );
  const [first] = sized.sort((a, b) => b.size - a.size);
  if (first === undefined || first.size < ROWS * 50) throw new Error(`no file that matches ${pattern} holds the rows`);
  return first.path;
}

const logFile = () => largest(/\.log$/);

async function flip(path: string, offset: number, length = 4): Promise<void> {
  await using file = await open(path, 'r+');
  const bytes = Buffer.alloc(length);
  await file.read(bytes, 0, length, offset);
  await file.write(
    bytes.map((byte) => byte ^ 0xff),
    0,
    length,
    offset,
  );
}

async function expectRefusal(...mentions: readonly string[]): Promise<void> {
  const error = await refusalOf(openSmall(dir.path));
  expect(error).toBeInstanceOf(StoreCorruptError);
  for (const mention of [dir.path, ...mentions]) expect(error.message).toContain(mention);
}

const logDamage: readonly (readonly [string, (path: string) => Promise<void>])[] = [
  ['a byte flipped in the middle', async (path) => flip(path, (await stat(path)).size >> 1, 1)],
  ['bytes flipped near the end', async (path) => flip(path, (await stat(path)).size - 50)],
  ['the end cut off', async (path) => truncate(path, (await stat(path)).size - 500)],
  ['nothing left', async (path) => truncate(path, 0)],
];

describe('after a crash, damage of the log in use is noticed', () => {
  test.each(logDamage)('%s', async (_case, damage) => {
    await use(inLog);
    await damage(await logFile());
    await expectRefusal('was synced', 'backup', ACCEPT_LOSS_FILE);
    // A refusal changes no file: the next open is refused, too.
    await expectRefusal('was synced');
  });

  test('and reported with the numbers of the last group found and the last one synced', async () => {
    await use(inLog);
    await truncate(await logFile(), 0);
    await expectRefusal('ends with group 0 ', `group ${ROWS / 10} was synced`);
  });

  test('and the operator may continue once with the remaining rows', async () => {
    await use(inLog);
    await flip(await logFile(), (await stat(await logFile())).size >> 1);
    await writeFile(at(ACCEPT_LOSS_FILE), '');
    {
      await using store = await openSmall(dir.path);
      const names = await namesIn(store);
      expect(names.length).toBeGreaterThan(0);
      expect(names.length).toBeLessThan(ROWS);
      expect(names).toEqual(names.map((_, number) => nameOf(number)));
      const [row] = await store.get(Family.meta, [metaKeys.acceptedLoss]);
      expect(row && Math.abs(Date.now() - decodeAcceptedLoss(row))).toBeLessThan(60_000);
      await store.write(put('after'), SYNC);
    }
    expect(await readdir(dir.path)).not.toContain(ACCEPT_LOSS_FILE);
    await using again = await openSmall(dir.path);
    expect(await namesIn(again)).toContain('after');
  });
});

describe('after a crash, damage of an earlier log is noticed, although RocksDB would skip the log', () => {
  const pick = async (which: 'first' | 'middle' | 'last but one') => {
    const logs = (await files(/\.log$/)).sort();
    return { first: logs[0], middle: logs[logs.length >> 1], 'last but one': logs.at(-2) }[which] ?? '';
  };

  describe.each(['first', 'middle', 'last but one'] as const)('of the %s log', (which) => {
    test.each(logDamage)('%s', async (_case, damage) => {
      await use(inManyLogs);
      const path = await pick(which);
      await damage(path);
      await expectRefusal(path, ACCEPT_LOSS_FILE);
    });

    test('a missing one is put back', async () => {
      await use(inManyLogs);
      await rm(await pick(which));
      await using store = await openSmall(dir.path);
      expect(await namesIn(store)).toHaveLength(60);
      expect(await namesIn(store, Family.requests)).toHaveLength(60);
    });
  });

  test('without the record of the files, the database opens with a warning', async () => {
    await use(inManyLogs);
    await rm(at(SYNCED_FILES));
    const warnings: string[] = [];
    const warn = (_fields: object, message: string) => void warnings.push(message);
    await using store = await openSmall(dir.path, { info: () => undefined, warn, error: warn });
    expect(warnings.join()).toContain(`${SYNCED_FILES} is missing`);
    expect(await namesIn(store)).toHaveLength(60);
  });
});

describe('after a close, no log may be damaged or missing', () => {
  test.each([...logDamage, ['the file deleted', (path: string) => rm(path)] as const])('%s', async (_case, damage) => {
    await use(inBoth);
    await rm(at(KEPT_LOGS), { recursive: true });
    const path = await logFile();
    await damage(path);
    await expectRefusal(path, ACCEPT_LOSS_FILE);
  });
});

describe('the sync mark', () => {
  test('does not report unsynced writes that a crash has lost', async () => {
    {
      await using store = await openSmall(dir.path);
      await store.write(put('synced'), SYNC);
      for (let number = 0; number < 20; number++) await store.write(put(nameOf(number)), { sync: false });
    }
    await using store = await openSmall(dir.path);
    expect(await namesIn(store)).toContain('synced');
  });

  test.each([
    ['missing', () => rm(at(SYNC_MARK_FILE)), 'is missing'],
    [
      'damaged in both slots',
      async () => Promise.all([flip(at(SYNC_MARK_FILE), 10), flip(at(SYNC_MARK_FILE), 522)]),
      'is damaged',
    ],
    ['empty', () => truncate(at(SYNC_MARK_FILE), 0), 'is damaged'],
  ])('that is %s is a refusal', async (_case, damage, says) => {
    await use(inLog);
    await damage();
    await expectRefusal(SYNC_MARK_FILE, says, ACCEPT_LOSS_FILE);
  });

  test('survives one damaged slot', async () => {
    await use(inLog);
    await flip(at(SYNC_MARK_FILE), 10);
    await using store = await openSmall(dir.path);
    expect(await namesIn(store)).toHaveLength(ROWS);
  });

  test('detects a missing database', async () => {
    await use(inLog);
    const mark = await files(/^sync-mark$/);
    for (const path of await files(/./)) if (!mark.includes(path)) await rm(path, { recursive: true });
    await expectRefusal('is gone', `group ${ROWS / 10} `);
  });

  test('allows a new database in an empty directory, even after an interrupted start', async () => {
    await (await openSmall(dir.path)).close();
    await (await openSmall(dir.path)).close();
    for (const path of await files(/CURRENT|MANIFEST|OPTIONS|IDENTITY|\.log$/)) await rm(path);
    await using store = await openSmall(dir.path);
    await store.write(put('a'), SYNC);
  });
});

describe('damaged files are noticed', () => {
  test('a flipped byte in a data block: reading it rejects and names the file; no wrong byte is returned', async () => {
    await use(inFiles);
    await flip(await largest(/\.sst$/), 30, 1);
    await using store = await openSmall(dir.path);
    const reads = [
      store.get(Family.ready, [nameOf(1) as Key]),
      store.scan(Family.ready, { gte: 'row' as Key, lt: 's' as Key }, { rows: 9, bytes: 9999 }),
    ];
    for (const result of await Promise.allSettled(reads)) {
      expect(result.status).toBe('rejected');
      const reason = (result as PromiseRejectedResult).reason as Error;
      expect(reason).toBeInstanceOf(StoreCorruptError);
      expect(reason.message).toMatch(/\d+\.sst/);
      expect(reason.message).toContain('backup');
    }
    // Other rows can still be read.
    expect(await store.get(Family.data, ['none' as Key])).toEqual([undefined]);
  });

  test('and the log names the file and the next step, once for any number of reads', async () => {
    await use(inFiles);
    await flip(await largest(/\.sst$/), 30, 1);
    const told: string[] = [];
    const error = ({ err }: { readonly err?: Error }) => told.push(err?.message ?? '');
    await using store = await openSmall(dir.path, { info: () => {}, warn: () => {}, error });
    for (let times = 0; times < 3; times++) await refusalOf(store.get(Family.ready, [nameOf(1) as Key]));
    expect(told).toEqual([expect.stringMatching(/\d+\.sst.*restore the directory from a backup/s)]);
  });

  test('a manifest cut short anywhere, also between two of its records', async () => {
    await use(inFiles);
    const [manifest = ''] = await files(/^MANIFEST/);
    for (let size = (await stat(manifest)).size - 1; size > 0; size -= 37) {
      await truncate(manifest, size);
      await expectRefusal();
    }
  });

  test.each([
    ['a table is missing', async () => rm((await files(/\.sst$/))[0] ?? '')],
    ['a table is cut short', async () => truncate((await files(/\.sst$/))[0] ?? '', 100)],
    [
      'a table’s footer is flipped',
      async () => {
        for (const path of await files(/\.sst$/)) await flip(path, (await stat(path)).size - 20);
      },
    ],
    ['the manifest is flipped', async () => flip((await files(/^MANIFEST/))[0] ?? '', 40)],
    ['the manifest is missing', async () => rm((await files(/^MANIFEST/))[0] ?? '')],
    ['CURRENT is missing', async () => rm(at('CURRENT'))],
    ['CURRENT is nonsense', async () => writeFile(at('CURRENT'), 'nonsense\n')],
  ])('%s: the store does not open', async (_case, damage) => {
    await use(inFiles);
    await damage();
    await expectRefusal();
  });
});

/** Number of seeds. A longer run may set more. */
const ROUNDS = Number(process.env.STORE_DAMAGE_ROUNDS ?? 8);

describe('after any damage', () => {
  const harm: Record<string, (path: string, size: number, random: SeededRandom) => Promise<void>> = {
    'a flipped byte': (path, size, random) => flip(path, random.int(size), 1),
    'a flipped stretch': (path, size, random) => flip(path, random.int(size), 64),
    'a cut': (path, size, random) => truncate(path, random.int(size)),
    'a loss': (path) => rm(path),
  };

  const seeds = Array.from({ length: ROUNDS }, (_, seed) => seed);
  test.each(seeds)('no wrong row is read and no row is missed (seed %i)', async (seed) => {
    const random = new SeededRandom(seed);
    await use(inBoth);
    const path = random.pick(
      await files(/^(CURRENT|MANIFEST-\d+|OPTIONS-\d+|IDENTITY|sync-mark|synced-files|\d+\.(sst|log))$/),
    );
    const kind = random.pick(Object.keys(harm));
    await harm[kind]?.(path, (await stat(path)).size || 1, random);
    try {
      await using store = await openSmall(dir.path);
      const range = { gte: 'row' as Key, lt: 's' as Key };
      const rows = await store.scan(Family.ready, range, { rows: 1_000_000, bytes: 1_000_000_000 });
      const found = new Map(rows.map(({ key, value }) => [key as string, Uint8Array.from(value)]));
      expect(found, `${kind} of ${path}`).toEqual(values);
    } catch (error) {
      if (!(error instanceof StoreCorruptError)) throw error;
    }
  });
});
