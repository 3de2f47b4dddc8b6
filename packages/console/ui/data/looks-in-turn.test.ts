import { expect, test } from 'vitest';
import { LooksInTurn } from './looks-in-turn.ts';

/** Looks at the queues that are next, at this time. Returns them. */
function round(looks: LooksInTurn<string>, queues: readonly string[], at: number): string[] {
  const next = looks.next(queues);
  for (const queue of next) looks.saw(queue, { found: [queue], at });
  return next;
}

test('the first queues are next each time, and all others come in turn', () => {
  const looks = new LooksInTurn<string>(1, 2);
  const queues = ['a', 'b', 'c', 'd', 'e', 'f'];
  expect(round(looks, queues, 1)).toEqual(['a', 'b', 'c']);
  expect(round(looks, queues, 2)).toEqual(['a', 'd', 'e']);
  expect(round(looks, queues, 3)).toEqual(['a', 'f', 'b']);
  expect(looks.all.map(({ found, at }) => [...found, at])).toEqual([
    ['c', 1],
    ['d', 2],
    ['e', 2],
    ['a', 3],
    ['b', 3],
    ['f', 3],
  ]);
});

test('a queue that is not there any more is forgotten', () => {
  const looks = new LooksInTurn<string>(1, 2);
  round(looks, ['a', 'b', 'c'], 1);
  expect(looks.next(['b'])).toEqual(['b']);
  expect(looks.all).toEqual([{ found: ['b'], at: 1 }]);
});
