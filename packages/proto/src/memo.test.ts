import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { Memo } from './memo.ts';

const MIB = 1024 * 1024;

/**
 * The memory that objects and texts use, in MiB. A collection frees long texts and buffers, which are outside of the heap, only
 * when the next one begins: after one alone, up to half of them were still there.
 */
function heapMiB(): number {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  for (let times = 0; times < 3; times++) gc();
  const { heapUsed, external } = process.memoryUsage();
  return (heapUsed + external) / MIB;
}

test.each([
  ['long keys', (nth: number) => `${nth} ${'x'.repeat(MIB)}`],
  [
    'short keys that are parts of long texts',
    (nth: number) => Buffer.alloc(MIB, `${nth} a name `).toString().slice(0, 32),
  ],
])('%s, which callers choose, take bounded memory', (_what, keyOf) => {
  const before = heapMiB();
  const memo = new Memo<string, number>(4_096);
  for (let nth = 0; nth < 200; nth++) memo.remember(keyOf(nth), nth);
  expect(heapMiB() - before).toBeLessThan(100);
  expect(memo.get(keyOf(199))).toBe(199);
});

test('keys are equal to the texts that they are copies of', () => {
  const memo = new Memo<string, number>(16);
  const keys = ['', 'shop', 'größe', '日本 👍', 'a lone surrogate \ud83d that stays', '\ufeff a mark in front of it'];
  for (const [nth, key] of keys.entries()) memo.remember(key, nth);
  expect(keys.map((key) => memo.get(key))).toEqual([0, 1, 2, 3, 4, 5]);
});

test('all is forgotten when there are too many', () => {
  const memo = new Memo<string, number>(2);
  for (const key of ['a', 'b', 'c']) memo.remember(key, 1);
  expect(['a', 'b', 'c'].map((key) => memo.get(key))).toEqual([undefined, undefined, 1]);
});
