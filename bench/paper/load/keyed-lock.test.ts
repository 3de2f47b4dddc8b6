import { expect, test } from 'vitest';
import { KeyedLock } from './keyed-lock.ts';

function setUp() {
  const lock = new KeyedLock();
  const begun: string[] = [];
  const work = (name: string, key: string) => {
    const { promise, resolve } = Promise.withResolvers<string>();
    const result = lock.run(key, () => {
      begun.push(name);
      return promise;
    });
    return { result, finish: () => resolve(name) };
  };
  return { lock, begun, work };
}

test('work with one key runs one after the other, in order', async () => {
  const { begun, work } = setUp();
  const [first, second, third] = [work('first', 'a'), work('second', 'a'), work('third', 'a')];
  second.finish();
  third.finish();
  await Promise.resolve();
  expect(begun).toEqual(['first']);
  first.finish();
  expect(await Promise.all([first.result, second.result, third.result])).toEqual(['first', 'second', 'third']);
  expect(begun).toEqual(['first', 'second', 'third']);
});

test('work with different keys runs concurrently', async () => {
  const { begun, work } = setUp();
  work('first', 'a');
  const other = work('other', 'b');
  other.finish();
  expect(await other.result).toBe('other');
  expect(begun).toEqual(['first', 'other']);
});

test('work that fails releases the lock for the next', async () => {
  const { lock } = setUp();
  const failing = lock.run('a', () => Promise.reject(new Error('lost')));
  const next = lock.run('a', async () => 'next');
  await expect(failing).rejects.toThrow('lost');
  expect(await next).toBe('next');
});
