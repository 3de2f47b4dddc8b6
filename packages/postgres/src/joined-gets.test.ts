import type { Key } from '@taskmaster/engine/domain';
import { Family } from '@taskmaster/engine/ports';
import { expect, test } from 'vitest';
import type { Read, Session } from './database.ts';
import { JoinedGets } from './joined-gets.ts';

/** Sessions that are all busy. The values are the names of their keys; those of `-` are missing. */
function setUp() {
  const statements: string[] = [];
  const session = {
    async get(_name: string, family: Family, keys: readonly Key[]) {
      statements.push(`${family}: ${keys.join(' ')}`);
      return { node: undefined, found: keys.map((key) => (key.startsWith('-') ? undefined : Buffer.from(key))) };
    },
  } as unknown as Session;
  const free = Promise.withResolvers<void>();
  const gets = new JoinedGets(async <T>(call: (from: Session, name: string) => Promise<Read<T>>) => {
    await free.promise;
    return (await call(session, 'node')).found;
  });
  const get = async (family: Family, keys: readonly string[]) =>
    (await gets.get(family, keys as Key[])).map((value) => value && Buffer.from(value).toString());
  return { get, statements, free: () => free.resolve() };
}

test('gets that wait for a session join one statement, and each gets its own values', async () => {
  const { get, statements, free } = setUp();
  const all = Promise.all([
    get(Family.data, ['a', '-b']),
    get(Family.hidden, ['x']),
    get(Family.data, ['a']),
    get(Family.data, ['-c', 'd']),
  ]);
  free();
  expect(await all).toEqual([['a', undefined], ['x'], ['a'], [undefined, 'd']]);
  expect(statements).toEqual([`${Family.data}: a -b a -c d`, `${Family.hidden}: x`]);
  expect(await get(Family.data, ['late'])).toEqual(['late']);
  expect(statements.at(-1)).toBe(`${Family.data}: late`);
});

test('a statement has a bounded number of keys, unless one call has more', async () => {
  const { get, statements, free } = setUp();
  const many = Array.from({ length: 100 }, (_, number) => `m${number}`);
  const calls = [get(Family.data, many), ...many.map((key) => get(Family.data, [key]))];
  free();
  expect((await Promise.all(calls)).flat()).toEqual([...many, ...many]);
  expect(statements.map((text) => text.split(' ').length - 1)).toEqual([100, 64, 36]);
});
