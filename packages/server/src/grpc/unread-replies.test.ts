import { describe, expect, test } from 'vitest';
import { UnreadReplies } from './unread-replies.ts';

function setUp() {
  const cut: string[] = [];
  const unread = new UnreadReplies({ totalBytes: 100, connectionBytes: 60, cut: (name) => void cut.push(name) });
  return { cut, unread };
}

describe('unread replies', () => {
  test('are kept while there are few', () => {
    const { cut, unread } = setUp();
    unread.add('a', 50);
    unread.add('b', 50);
    expect(unread.totalBytes).toBe(100);
    unread.remove('a', 50);
    expect(unread.totalBytes).toBe(50);
    expect(cut).toEqual([]);
  });

  test('above the limit of one connection close it', () => {
    const { cut, unread } = setUp();
    unread.add('a', 40);
    unread.add('a', 30);
    expect(cut).toEqual(['a']);
    expect(unread.totalBytes).toBe(0);
  });

  test('above the limit of all connections close the one that reads least', () => {
    const { cut, unread } = setUp();
    unread.add('reader', 10);
    unread.add('sleeper', 55);
    unread.add('newcomer', 36);
    expect(cut).toEqual(['sleeper']);
    expect(unread.totalBytes).toBe(46);
  });

  test('close a connection once, however long the close takes', () => {
    const { cut, unread } = setUp();
    unread.add('a', 70);
    unread.add('a', 70);
    unread.remove('a', 70);
    unread.remove('a', 70);
    expect(cut).toEqual(['a']);
    expect(unread.totalBytes).toBe(0);
    unread.add('a', 10);
    expect(unread.totalBytes).toBe(10);
  });
});
