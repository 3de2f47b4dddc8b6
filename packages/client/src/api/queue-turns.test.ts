import { describe, expect, test } from 'vitest';
import { QueueTurns } from './queue-turns.ts';

const weights: Readonly<Record<string, number>> = { heavy: 3, half: 0.5 };

function setUp(...queues: string[]) {
  const turns = new QueueTurns({
    shareOf: (queue) => queue.split('#')[0] ?? '',
    weightOf: (share) => weights[share] ?? 1,
  });
  for (const queue of queues) turns.note(queue, true);
  /** Leases tasks in turn from queues that never run out, and counts them by queue. */
  const serve = (leases: number, max = 1): Record<string, number> => {
    const counts: Record<string, number> = {};
    for (let lease = 0; lease < leases; lease++) {
      const asked = turns.next(16);
      const [first] = asked;
      if (first === undefined) break;
      const part = turns.partOf(first, max);
      counts[first] = (counts[first] ?? 0) + part;
      turns.leased(asked, new Map([[first, part]]), part);
    }
    return counts;
  };
  return { turns, serve };
}

describe('fair turns', () => {
  test('give queues as many tasks as their weights say', () => {
    expect(setUp('a#q', 'b#q').serve(100)).toEqual({ 'a#q': 50, 'b#q': 50 });
    const counts = setUp('a#q', 'heavy#q', 'half#q').serve(900);
    for (const [queue, count] of [
      ['a#q', 200],
      ['heavy#q', 600],
      ['half#q', 100],
    ] as const) {
      expect(Math.abs((counts[queue] ?? 0) - count), queue).toBeLessThanOrEqual(3);
    }
  });

  test('give a share as many as another one, however many queues it has', () => {
    const counts = setUp('a#1', 'a#2', 'a#3', 'b#1').serve(120);
    expect(counts).toEqual({ 'a#1': 20, 'a#2': 20, 'a#3': 20, 'b#1': 60 });
  });

  test('divide one lease among the shares that have tasks', () => {
    const { turns } = setUp('a#q', 'b#q', 'heavy#q');
    expect([turns.partOf('a#q', 10), turns.partOf('heavy#q', 10), turns.partOf('a#q', 1)]).toEqual([2, 6, 1]);
    turns.leased(['b#q', 'heavy#q'], new Map(), 5);
    expect(turns.partOf('a#q', 10)).toBe(10);
  });

  test('leave out queues that have no more tasks, until they have', () => {
    const { turns } = setUp('a#q', 'b#q', 'c#q');
    // The first has none, the second the last of its tasks, the third more.
    turns.leased(
      ['a#q', 'b#q', 'c#q'],
      new Map([
        ['b#q', 1],
        ['c#q', 4],
      ]),
      5,
    );
    expect(turns.next(16)).toEqual(['c#q']);
    turns.leased(['c#q'], new Map([['c#q', 2]]), 5);
    expect(turns.next(16)).toEqual([]);
    turns.note('a#q', true);
    turns.note('b#q', false);
    expect(turns.next(16)).toEqual(['a#q']);
  });

  test('count tasks of a queue that was not asked for by its name', () => {
    const { turns } = setUp('a#q', 'b#q');
    turns.found('c#q', 5);
    expect(turns.next(16)).toEqual(['a#q', 'b#q', 'c#q']);
    turns.leased(['a#q'], new Map([['a#q', 9]]), 9);
    turns.leased(['b#q'], new Map([['b#q', 9]]), 9);
    expect(turns.next(16)).toEqual(['c#q', 'a#q', 'b#q']);
  });

  test('do not make up for the time in which a queue had no tasks', () => {
    const { turns, serve } = setUp('a#q');
    serve(1_000);
    turns.note('late#q', true);
    expect(serve(100)).toEqual({ 'a#q': 50, 'late#q': 50 });
    // It is gone for a while.
    turns.note('late#q', false);
    serve(1_000);
    turns.note('late#q', true);
    expect(serve(100)).toEqual({ 'a#q': 50, 'late#q': 50 });
  });

  test('let no queue of a share make up for the time before it came', () => {
    const { turns, serve } = setUp('a#1', 'b#1');
    serve(1_000);
    turns.note('a#2', true);
    expect(serve(200)).toEqual({ 'a#1': 50, 'a#2': 50, 'b#1': 100 });
  });

  test('forget queues without tasks, but not the turns that they have had', () => {
    const { turns } = setUp('busy#q', 'other#q');
    turns.found('often#q', 10);
    turns.note('often#q', false);
    for (let at = 0; at < 1_000; at++) {
      turns.note(`once-${at}#q`, true);
      turns.note(`once-${at}#q`, false);
    }
    expect(turns.names.length).toBeLessThan(200);
    turns.note('often#q', true);
    expect(turns.next(16)).toEqual(['busy#q', 'other#q', 'often#q']);
  });

  test('leave out a queue that was forgotten while it was asked', () => {
    const { turns } = setUp('b#q');
    turns.leased(['a#q', 'b#q'], new Map([['a#q', 1]]), 3);
    expect([turns.next(16), turns.names]).toEqual([[], ['b#q']]);
  });
});
