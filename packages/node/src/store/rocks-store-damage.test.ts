import { open, readdir, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Key } from '../domain/ids.ts';
import { Family, StoreCorrupt } from '../ports/store.ts';
import { SeededRandom } from '../testing/seeded-random.ts';
import { ACCEPT_LOSS_FILE } from './open-database.ts';
import { SYNC_MARK_FILE } from './sync-mark.ts';
import { namesIn, openSmall, put, refusalOf, type TemporaryDirectory, temporaryDirectory } from './test-support.ts';

const SYNC = { sync: true };
const ROWS = 300;
const nameOf = (number: number) => `row ${String(number).padStart(4, '0')}`;
const random = new SeededRandom(1);

let dir: TemporaryDirectory;
beforeEach(async () => {
  dir = await temporaryDirectory();
});
afterEach(async () => {
  await dir[Symbol.asyncDispose]();
});

const at = (name: string) => join(dir.path, name);

/** Rows written and synced one by one, so that each is a group, and a record of the log, of its own. */
async function write(): Promise<void> {
  await using store = await openSmall(dir.path);
  for (let number = 0; number < ROWS; number++) await store.write(put(nameOf(number), random.bytes(200)), SYNC);
}

/** As `write`; opening once more moves the rows from the log to files. */
async function writeFiles(): Promise<void> {
  await write();
  await (await openSmall(dir.path)).close();
}

async function files(pattern: RegExp): Promise<string[]> {
  const names = (await readdir(dir.path)).filter((name) => pattern.test(name));
  if (names.length === 0) throw new Error(`no file matches ${pattern}`);
  return names.map(at);
}

/** The one that holds the rows. */
async function largest(pattern: RegExp): Promise<string> {
  const sized = await Promise.all(
    (await files(pattern)).map(async (path) => ({ path, size: (await stat(path)).size })),
  );
  const [first] = sized.sort((a, b) => b.size - a.size);
  if (first === undefined || first.size < ROWS * 200) throw new Error(`no file that matches ${pattern} holds the rows`);
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
  expect(error).toBeInstanceOf(StoreCorrupt);
  for (const mention of [dir.path, ...mentions]) expect(error.message).toContain(mention);
}

describe('a write-ahead log that lost synced writes is noticed', () => {
  const cases: readonly (readonly [string, () => Promise<void>])[] = [
    ['a byte flipped in the middle', async () => flip(await logFile(), 20_000, 1)],
    ['bytes flipped near the end', async () => flip(await logFile(), (await stat(await logFile())).size - 50)],
    ['the end cut off', async () => truncate(await logFile(), (await stat(await logFile())).size - 500)],
    ['nothing left', async () => truncate(await logFile(), 0)],
    ['the file deleted', async () => rm(await logFile())],
  ];

  test.each(cases)('%s', async (_case, damage) => {
    await write();
    await damage();
    await expectRefusal('was synced', 'backup', ACCEPT_LOSS_FILE);
    // A refusal changes nothing: it comes every time.
    await expectRefusal('was synced');
  });

  test('and told by the numbers of the last group found and the last one synced', async () => {
    await write();
    await truncate(await logFile(), 0);
    await expectRefusal('ends with group 0 ', `group ${ROWS} was synced`);
  });

  test('and the operator may go on with what is left, once', async () => {
    await write();
    await flip(await logFile(), 20_000);
    await writeFile(at(ACCEPT_LOSS_FILE), '');
    {
      await using store = await openSmall(dir.path);
      const names = await namesIn(store);
      expect(names.length).toBeGreaterThan(0);
      expect(names.length).toBeLessThan(ROWS);
      expect(names).toEqual(names.map((_, number) => nameOf(number)));
      await store.write(put('after'), SYNC);
    }
    expect(await readdir(dir.path)).not.toContain(ACCEPT_LOSS_FILE);
    await using again = await openSmall(dir.path);
    expect(await namesIn(again)).toContain('after');
  });
});

describe('the sync mark', () => {
  test('raises no alarm over unsynced writes that a crash took', async () => {
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
    await write();
    await damage();
    await expectRefusal(SYNC_MARK_FILE, says, ACCEPT_LOSS_FILE);
  });

  test('survives one damaged slot', async () => {
    await write();
    await flip(at(SYNC_MARK_FILE), 10);
    await using store = await openSmall(dir.path);
    expect(await namesIn(store)).toHaveLength(ROWS);
  });

  test('notices a database that is gone', async () => {
    await write();
    const mark = await files(/^sync-mark$/);
    for (const path of await files(/./)) if (!mark.includes(path)) await rm(path);
    await expectRefusal('is gone', `group ${ROWS} `);
  });

  test('lets an empty directory become a database, also after a start that ended early', async () => {
    await (await openSmall(dir.path)).close();
    await (await openSmall(dir.path)).close();
    for (const path of await files(/CURRENT|MANIFEST|OPTIONS|IDENTITY|\.log$/)) await rm(path);
    await using store = await openSmall(dir.path);
    await store.write(put('a'), SYNC);
  });
});

describe('damaged files are noticed', () => {
  test('a flipped byte in a data block: reading it rejects and names the file; no wrong byte is returned', async () => {
    await writeFiles();
    await flip(await largest(/\.sst$/), 30, 1);
    await using store = await openSmall(dir.path);
    const reads = [
      store.get(Family.ready, [nameOf(1) as Key]),
      store.scan(Family.ready, { gte: 'row' as Key, lt: 's' as Key }, { rows: 9, bytes: 9999 }),
    ];
    for (const result of await Promise.allSettled(reads)) {
      expect(result.status).toBe('rejected');
      const reason = (result as PromiseRejectedResult).reason as Error;
      expect(reason).toBeInstanceOf(StoreCorrupt);
      expect(reason.message).toMatch(/\d+\.sst/);
      expect(reason.message).toContain('backup');
    }
    // The sound ones go on.
    expect(await store.get(Family.data, ['none' as Key])).toEqual([undefined]);
  });

  test('a manifest cut short anywhere, also between two of its records', async () => {
    await writeFiles();
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
    await writeFiles();
    await damage();
    await expectRefusal();
  });
});

/** One round takes a second; a longer run asks for more. */
const ROUNDS = Number(process.env.STORE_DAMAGE_ROUNDS ?? 8);

describe('whatever is damaged', () => {
  const harm: Record<string, (path: string, size: number, random: SeededRandom) => Promise<void>> = {
    'a flipped byte': (path, size, random) => flip(path, random.int(size), 1),
    'a flipped stretch': (path, size, random) => flip(path, random.int(size), 64),
    'a cut': (path, size, random) => truncate(path, random.int(size)),
    'a loss': (path) => rm(path),
  };

  test.each(Array.from({ length: ROUNDS }, (_, seed) => seed))(
    'no wrong row is read and no row is missed (seed %i)',
    {
      timeout: 60_000,
    },
    async (seed) => {
      const random = new SeededRandom(seed);
      const expected = new Map<string, string>();
      const write = async (from: number) => {
        await using store = await openSmall(dir.path);
        for (let number = from; number < from + 100; number++) {
          const value = Buffer.from(random.bytes(random.int(600))).toString('latin1');
          expected.set(nameOf(number), value);
          await store.write(put(nameOf(number), Buffer.from(value, 'latin1')), SYNC);
        }
      };
      // The first rows end up in files, the last ones in the log.
      await write(0);
      await write(100);

      const paths = await files(/^(CURRENT|MANIFEST-\d+|OPTIONS-\d+|IDENTITY|sync-mark|\d+\.(sst|log))$/);
      const path = random.pick(paths);
      const kind = random.pick(Object.keys(harm));
      await harm[kind]?.(path, (await stat(path)).size || 1, random);

      try {
        await using store = await openSmall(dir.path);
        const range = { gte: 'row' as Key, lt: 's' as Key };
        const rows = await store.scan(Family.ready, range, { rows: 1_000_000, bytes: 1_000_000_000 });
        const found = new Map(rows.map(({ key, value }) => [key as string, Buffer.from(value).toString('latin1')]));
        expect(found, `${kind} of ${path}`).toEqual(expected);
      } catch (error) {
        if (!(error instanceof StoreCorrupt)) throw error;
      }
    },
  );
});
