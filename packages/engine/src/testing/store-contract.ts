import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Key } from '../domain/ids.ts';
import { Family, type KeyRange, type Store, StoreClosedError } from '../ports/store.ts';
import { WriteBatch } from '../ports/write-batch.ts';

/** A store under test that can crash. */
export interface CrashableStore extends AsyncDisposable {
  /** The open store. */
  readonly store: Store;
  /** Opens the store again after a crash at this moment. */
  crashAndReopen(): Promise<void>;
  /** Opens the store again after it was closed. */
  reopen(): Promise<void>;
}

const key = (text: string): Key => text as Key;
const bytes = (text: string): Uint8Array => Buffer.from(text, 'latin1');
const text = (value: Uint8Array | undefined): string | undefined => value && Buffer.from(value).toString('latin1');
/** More than any key of an engine has. */
const LONGEST_KEY = 4_800;
/** Bytes that look random. */
const randomText = (length: number): string => {
  let state = 1;
  const next = (): string => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return String.fromCharCode(state >>> 24);
  };
  return Array.from({ length }, next).join('');
};
const SYNC = { sync: true };
const NO_SYNC = { sync: false };
const ALL: KeyRange = { gte: key(''), lt: key('\xff\xff\xff') };
const NO_LIMIT = { rows: 1_000_000, bytes: 1_000_000_000 };

/** A batch that puts these rows; it deletes rows whose value is undefined. Default family: `ready`. */
type Rows = Readonly<Record<string, string | undefined>>;

function batchOf(rows: Rows, family: Family = Family.ready): WriteBatch {
  const batch = new WriteBatch();
  change(batch, rows, family);
  return batch;
}

/** Adds changes. Undefined: the row is deleted. */
function change(batch: WriteBatch, rows: Rows, family: Family = Family.ready): void {
  for (const [name, value] of Object.entries(rows)) {
    if (value === undefined) batch.delete(family, key(name));
    else batch.put(family, key(name), bytes(value));
  }
}

async function rowsOf(store: Store, family: Family = Family.ready, range = ALL): Promise<Record<string, string>> {
  const rows = await store.scan(family, range, NO_LIMIT);
  return Object.fromEntries(rows.map(({ key, value }) => [key, text(value) ?? '']));
}

/** The tests that every implementation of `Store` must pass. Each test gets a new, empty store. */
export function storeContract(name: string, open: () => Promise<CrashableStore>): void {
  describe(`${name} keeps the store contract`, () => {
    let subject: CrashableStore;
    beforeEach(async () => {
      subject = await open();
    });
    afterEach(async () => {
      await subject[Symbol.asyncDispose]();
    });

    test('get returns values in the order of the keys, undefined for a missing one', async () => {
      const { store } = subject;
      await store.write(batchOf({ a: '1', b: '2' }), SYNC);
      const values = await store.get(Family.ready, [key('b'), key('none'), key('a'), key('b')]);
      expect(values.map(text)).toEqual(['2', undefined, '1', '2']);
      expect(await store.get(Family.ready, [])).toEqual([]);
    });

    test('keys are ordered by their bytes, with any bytes', async () => {
      const { store } = subject;
      const names = ['a', 'b', '\x00', '\x00\x00', 'a\x00', 'a\xff', '\x7f', '\x80', '\xc3\xa4', '\xfe', '\xff', 'ab'];
      await store.write(batchOf(Object.fromEntries(names.map((name) => [name, `value of ${name}`]))), SYNC);
      const rows = await store.scan(Family.ready, ALL, NO_LIMIT);
      const inOrder = names.map((name) => Buffer.from(name, 'latin1')).sort(Buffer.compare);
      expect(rows.map(({ key }) => key)).toEqual(inOrder.map((name) => name.toString('latin1')));
      expect(rows.every(({ key, value }) => text(value) === `value of ${key}`)).toBe(true);
      const values = await store.get(Family.ready, names.map(key));
      expect(values.map(text)).toEqual(names.map((name) => `value of ${name}`));
    });

    test('keys may be long, hardly compressible, and differ in their last byte only', async () => {
      const { store } = subject;
      const random = randomText(LONGEST_KEY - 1);
      // Some are the beginnings of others, at every length at which a store may cut them.
      const names = ['', 'a', 'b', '\x00', '\xff'].map((last) => random + last);
      for (const length of [2_000, 2_599, 2_600, 2_601, 2_700, 4_000]) names.push(random.slice(0, length));
      await store.write(batchOf(Object.fromEntries(names.map((name) => [name, `of ${name.length}`]))), SYNC);
      const inOrder = names.map(key).sort();
      const all = await store.scan(Family.ready, ALL, NO_LIMIT);
      expect(all.map((row) => row.key.length)).toEqual(inOrder.map(({ length }) => length));
      expect(all.map((row) => row.key)).toEqual(inOrder);
      const values = await store.get(Family.ready, names.map(key));
      expect(values.map(text)).toEqual(names.map((name) => `of ${name.length}`));
      // Page by page, each from a key that is the beginning of all later ones.
      const [first = key('')] = inOrder;
      const behindFirst = await store.scan(Family.ready, { ...ALL, gte: key(`${first}\0`) }, { rows: 3, bytes: 1e6 });
      expect(behindFirst.map((row) => row.key)).toEqual(inOrder.slice(1, 4));
      const gone = new WriteBatch();
      gone.delete(Family.ready, key(`${random}a`));
      gone.delete(Family.ready, key(random.slice(0, 2_600)));
      await store.write(gone, SYNC);
      await store.write(batchOf({ [`${random}b`]: 'again' }), SYNC);
      await store.deleteRange(Family.ready, { gte: key(random.slice(0, 2_601)), lt: key(`${random}\x00`) });
      const left = [random.slice(0, 2_000), random.slice(0, 2_599), `${random}\x00`, `${random}b`, `${random}\xff`];
      const rest = await store.scan(Family.ready, ALL, NO_LIMIT);
      expect(rest.map((row) => row.key)).toEqual(left);
      expect(text(rest[3]?.value)).toBe('again');
    });

    test('empty and binary values are returned unchanged', async () => {
      const { store } = subject;
      const every = Uint8Array.from({ length: 256 }, (_, index) => index);
      const batch = new WriteBatch();
      batch.put(Family.data, key('empty'), new Uint8Array(0));
      batch.put(Family.data, key('every'), every);
      await store.write(batch, SYNC);
      const [empty, same] = await store.get(Family.data, [key('empty'), key('every')]);
      expect(empty?.byteLength).toBe(0);
      expect(same && [...same]).toEqual([...every]);
      expect(await rowsOf(store, Family.data, { gte: key('em'), lt: key('en') })).toEqual({ empty: '' });
    });

    test('a returned value belongs to the caller', async () => {
      const { store } = subject;
      await store.write(batchOf({ a: '1' }), SYNC);
      const [value] = await store.get(Family.ready, [key('a')]);
      value?.fill(0);
      const [row] = await store.scan(Family.ready, ALL, NO_LIMIT);
      row?.value.fill(0);
      expect(await rowsOf(store)).toEqual({ a: '1' });
    });

    test('families do not see each other', async () => {
      const { store } = subject;
      for (const family of Object.values(Family)) await store.write(batchOf({ same: `in ${family}` }, family), NO_SYNC);
      for (const family of Object.values(Family)) {
        const [value] = await store.get(family, [key('same')]);
        expect(text(value)).toBe(`in ${family}`);
      }
    });

    describe('a scan', () => {
      beforeEach(async () => {
        await subject.store.write(batchOf({ a: '11', b: '22', c: '33', d: '44' }), SYNC);
      });
      const scan = async (range: readonly [string, string], limit: Partial<typeof NO_LIMIT> = {}) => {
        const [gte, lt] = range.map(key) as [Key, Key];
        const rows = await subject.store.scan(Family.ready, { gte, lt }, { ...NO_LIMIT, ...limit });
        return rows.map(({ key }) => key).join('');
      };

      test.each([
        ['includes its first key and excludes its last', ['b', 'd'], 'bc'],
        ['may begin and end between keys', ['aa', 'cc'], 'bc'],
        ['of an empty range finds nothing', ['b', 'b'], ''],
        ['of a range whose end is before its begin finds nothing', ['d', 'a'], ''],
      ] as const)('%s', async (_rule, range, found) => expect(await scan(range)).toBe(found));

      test.each([
        ['the rows', { rows: 2 }, 'ab'],
        ['the bytes of keys and values', { bytes: 6 }, 'ab'],
        ['the bytes, without the row that would exceed them', { bytes: 8 }, 'ab'],
        ['the bytes, but not before its first row', { bytes: 1 }, 'a'],
        ['the bound that it meets first: rows', { rows: 1, bytes: 9 }, 'a'],
        ['the bound that it meets first: bytes', { rows: 4, bytes: 9 }, 'abc'],
      ])('is limited by %s', async (_rule, limit, found) => expect(await scan(['a', 'z'], limit)).toBe(found));

      test('accepts limits larger than any number of rows', async () => {
        expect(await scan(['a', 'z'], { rows: Number.MAX_SAFE_INTEGER, bytes: Number.MAX_SAFE_INTEGER })).toBe('abcd');
        expect(await scan(['a', 'z'], { rows: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY })).toBe(
          'abcd',
        );
      });

      test('does not see deleted rows', async () => {
        await subject.store.write(batchOf({ a: undefined, c: undefined }), SYNC);
        expect(await scan(['a', 'z'])).toBe('bd');
      });
    });

    test('a scan returns rows as of one instant', async () => {
      const { store } = subject;
      const names = Array.from({ length: 300 }, (_, index) => `row ${String(index).padStart(3, '0')}`);
      const version = (number: number) => batchOf(Object.fromEntries(names.map((name) => [name, String(number)])));
      await store.write(version(0), NO_SYNC);
      const scans: Promise<Record<string, string>>[] = [];
      for (let number = 1; number <= 30; number++) {
        scans.push(rowsOf(store));
        const written = store.write(version(number), NO_SYNC);
        scans.push(rowsOf(store));
        await written;
      }
      for (const rows of await Promise.all(scans)) expect(new Set(Object.values(rows)).size).toBe(1);
    });

    test('reads see every write that was resolved before the call', async () => {
      const { store } = subject;
      for (let number = 0; number < 50; number++) {
        await store.write(batchOf({ a: String(number) }), { sync: number % 2 === 0 });
        const [[value], rows] = await Promise.all([store.get(Family.ready, [key('a')]), rowsOf(store)]);
        expect([text(value), rows.a]).toEqual([String(number), String(number)]);
      }
    });

    test('within a batch the later change of a row wins', async () => {
      const { store } = subject;
      await store.write(batchOf({ 'put, delete': 'old' }), SYNC);
      const batch = batchOf({ 'put, put': '1', 'delete, put': undefined, 'put, delete': '1' });
      change(batch, { 'put, put': '2', 'delete, put': '2', 'put, delete': undefined });
      await store.write(batch, SYNC);
      expect(await rowsOf(store)).toEqual({ 'put, put': '2', 'delete, put': '2' });
    });

    test('batches take effect in the order of the calls', async () => {
      const { store } = subject;
      const writes: Promise<void>[] = [];
      for (let number = 0; number < 500; number++) {
        const other = number % 2 === 0 ? String(number) : undefined;
        writes.push(store.write(batchOf({ last: String(number), other }), { sync: number % 3 === 0 }));
        if (number % 100 === 0) await Promise.resolve();
      }
      await Promise.all(writes);
      expect(await rowsOf(store)).toEqual({ last: '499' });
    });

    test('writes resolve in the order of the calls', async () => {
      const { store } = subject;
      const resolved: number[] = [];
      const writes = Array.from({ length: 100 }, (_, number) =>
        store.write(batchOf({ [`k${number}`]: '' }), { sync: number % 2 === 0 }).then(() => resolved.push(number)),
      );
      await Promise.all(writes);
      expect(resolved).toEqual(Array.from({ length: 100 }, (_, number) => number));
    });

    test('batches may be empty or larger than any buffer', async () => {
      const { store } = subject;
      const megabyte = new Uint8Array(1024 * 1024).fill(7);
      const batch = new WriteBatch();
      for (let number = 0; number < 9; number++) batch.put(Family.data, key(`large ${number}`), megabyte);
      await Promise.all([
        store.write(new WriteBatch(), SYNC),
        store.write(batch, SYNC),
        store.write(new WriteBatch(), NO_SYNC),
      ]);
      const rows = await store.scan(Family.data, ALL, NO_LIMIT);
      expect(rows.map(({ value }) => value.byteLength)).toEqual(Array(9).fill(megabyte.byteLength));
    });

    describe('a crash', () => {
      test('keeps every synced write that was resolved', async () => {
        await subject.store.write(batchOf({ a: '1', gone: '1' }), SYNC);
        await subject.store.write(batchOf({ b: '2', gone: undefined }), SYNC);
        await subject.crashAndReopen();
        expect(await rowsOf(subject.store)).toEqual({ a: '1', b: '2' });
      });

      test('keeps unsynced writes before a synced one', async () => {
        const first = subject.store.write(batchOf({ a: '1' }), NO_SYNC);
        await subject.store.write(batchOf({ b: '2' }), SYNC);
        await first;
        await subject.crashAndReopen();
        expect(await rowsOf(subject.store)).toEqual({ a: '1', b: '2' });
      });

      test('may lose unsynced writes; with atomic batches whole batches, the latest first', async () => {
        const { store } = subject;
        await store.write(batchOf({ synced: '0' }), SYNC);
        for (let number = 1; number <= 5; number++) {
          await store.write(batchOf({ [`a${number}`]: '', [`b${number}`]: '' }), NO_SYNC);
        }
        await subject.crashAndReopen();
        const { synced, ...rest } = await rowsOf(subject.store);
        expect(synced).toBe('0');
        if (!store.atomicBatches) return;
        const left = Object.keys(rest);
        const numbers = Array.from({ length: left.length / 2 }, (_, index) => index + 1);
        expect(left).toEqual([...numbers.map((n) => `a${n}`), ...numbers.map((n) => `b${n}`)]);
      });

      test('leaves an unresolved batch entirely or not at all, if batches are atomic', async () => {
        const { store } = subject;
        // The promise does not matter: the process that would have seen it is gone.
        store.write(batchOf({ a: '1', b: '1', c: '1' }), SYNC).catch(() => undefined);
        await subject.crashAndReopen();
        if (store.atomicBatches) expect([0, 3]).toContain(Object.keys(await rowsOf(subject.store)).length);
      });

      test('keeps a range deletion before a synced write', async () => {
        const { store } = subject;
        await store.write(batchOf({ a: '1', b: '2', c: '3' }), SYNC);
        await store.deleteRange(Family.ready, { gte: key('a'), lt: key('c') });
        await store.write(batchOf({ d: '4' }), SYNC);
        await subject.crashAndReopen();
        expect(await rowsOf(subject.store)).toEqual({ c: '3', d: '4' });
      });

      test('may happen repeatedly', async () => {
        const expected: Record<string, string> = {};
        for (let round = 0; round < 3; round++) {
          expected[`round ${round}`] = 'written';
          await subject.store.write(batchOf({ [`round ${round}`]: 'written' }), SYNC);
          await subject.crashAndReopen();
          expect(await rowsOf(subject.store)).toEqual(expected);
        }
      });
    });

    test('a range deletion includes its first key and excludes its last, in one family', async () => {
      const { store } = subject;
      const rows = { '\x80': '0', a: '1', b: '2', c: '3' };
      await store.write(batchOf(rows), NO_SYNC);
      await store.write(batchOf(rows, Family.hidden), NO_SYNC);
      await store.deleteRange(Family.ready, { gte: key('a'), lt: key('c') });
      expect(await rowsOf(store)).toEqual({ c: '3', '\x80': '0' });
      expect(await rowsOf(store, Family.hidden)).toEqual(rows);
      await store.deleteRange(Family.hidden, { gte: key('c'), lt: key('a') });
      expect(await rowsOf(store, Family.hidden)).toEqual(rows);
      await store.write(batchOf({ b: 'again' }), SYNC);
      expect(await rowsOf(store)).toEqual({ b: 'again', c: '3', '\x80': '0' });
    });

    test('range deletions and batches take effect in the order of the calls', async () => {
      const { store } = subject;
      const all = { gte: key('a'), lt: key('c') };
      await Promise.all([
        store.write(batchOf({ a: '1' }), SYNC),
        store.write(batchOf({ b: '1' }), NO_SYNC),
        store.deleteRange(Family.ready, all),
        store.write(batchOf({ a: '2' }), NO_SYNC),
        store.deleteRange(Family.hidden, all),
        store.write(batchOf({ b: '2' }), SYNC),
      ]);
      expect(await rowsOf(store)).toEqual({ a: '2', b: '2' });
    });

    describe('close', () => {
      test('finishes the writes in progress and keeps all rows', async () => {
        const { store } = subject;
        const writes = [store.write(batchOf({ a: '1' }), SYNC), store.write(batchOf({ b: '2' }), NO_SYNC)];
        const read = store.get(Family.ready, [key('none')]);
        await store.close();
        await Promise.all(writes);
        expect(await read).toEqual([undefined]);
        await subject.reopen();
        expect(await rowsOf(subject.store)).toEqual({ a: '1', b: '2' });
      });

      test('may be called repeatedly, also while the store is closing', async () => {
        const { store } = subject;
        await Promise.all([store.close(), store.close()]);
        await store.close();
        await store[Symbol.asyncDispose]();
      });

      test('makes every later call reject', async () => {
        const { store } = subject;
        const closing = store.close();
        for (const call of [
          () => store.write(batchOf({ a: '1' }), SYNC),
          () => store.get(Family.ready, [key('a')]),
          () => store.scan(Family.ready, ALL, NO_LIMIT),
          () => store.deleteRange(Family.ready, ALL),
        ]) {
          await expect(call()).rejects.toBeInstanceOf(StoreClosedError);
        }
        await closing;
      });
    });

    test('a working store is writable and reports no change of state', async () => {
      const { store } = subject;
      const states: unknown[] = [];
      store.onStateChange((state) => states.push(state));
      await store.write(batchOf({ a: '1' }), SYNC);
      expect(store.state).toEqual({ kind: 'writable' });
      expect(states).toEqual([]);
      expect(store.size().disk).toBeGreaterThan(0);
    });
  });
}
