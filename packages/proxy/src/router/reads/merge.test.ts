import { compareNames, placeByTrouble, placeOf, QueueStats, Schedule, TroubleSeverity } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import {
  addTotals,
  type ListedPage,
  listedByTrouble,
  listedQueues,
  listedSchedules,
  mergeItems,
  mergePages,
} from './merge.ts';

const stats = (queue: string, available = 1): QueueStats => ({
  queue,
  available,
  leased: 0,
  delayed: 0,
  waiting: 0,
  completed: 0,
  enqueueRate: 0,
  leaseRate: 0,
  completeRate: 0,
  meanLeaseMs: 0,
  oldestAgeMs: 0,
  pause: undefined,
  heldBy: [],
  heldKeys: 0,
  heldTasks: 0,
  heldSinceUnixMs: 0,
});
const NO_SCHEDULE = Schedule.decode(new Uint8Array(0));

/** A page that ends at a name. Undefined: it is the last one. */
const page = (names: string, end?: string): ListedPage<QueueStats> => ({
  items: names
    .split(' ')
    .filter(Boolean)
    .map((n) => stats(n)),
  end: end === undefined ? undefined : placeByTrouble(end, []),
});
const shown = ({ items, end }: ListedPage<Uint8Array>) => [
  items.map((item) => QueueStats.decode(item).queue).join(' '),
  end?.queue,
];

describe('pages of several nodes', () => {
  test('by trouble show the worst first, of all nodes, and go on where a page ended', () => {
    const troubled = (queue: string, kind: string, since: number): QueueStats => {
      const trouble = { kind, severity: TroubleSeverity.TROUBLE_SEVERITY_WARNING, message: '', queue };
      const watch = {
        failureRate: 0,
        troubles: [{ ...trouble, sinceUnixMs: since, sinceIsExact: true }],
        history: undefined,
      };
      return { ...stats(queue), watch };
    };
    const [a, b, c] = [troubled('a', 'queue-old', 5), troubled('b', 'queue-dying', 9), troubled('c', 'queue-old', 3)];
    const rest = [stats('d'), stats('e')];
    const first = mergePages(
      [
        { items: [b], end: placeOf(b) },
        { items: [c, a, ...rest], end: undefined },
      ],
      10,
      listedByTrouble,
    );
    // The first node may have more troubles behind `b`.
    expect([shown(first), first.end]).toEqual([['b', 'b'], { queue: 'b', rank: 6, since: 9 }]);
    const all = mergePages(
      [
        { items: [b, stats('bb')], end: undefined },
        { items: [c, a, ...rest], end: undefined },
      ],
      4,
      listedByTrouble,
    );
    expect(shown(all)).toEqual(['b c a bb', 'bb']);
  });

  test.each([
    ['nothing', [page('')], 10, ['', undefined]],
    ['all of them', [page('a c'), page('b')], 10, ['a b c', undefined]],
    ['no more than the limit', [page('a c'), page('b')], 2, ['a b', 'b']],
    ['nothing behind the end of a page that goes on', [page('a c', 'c'), page('b d e')], 10, ['a b c', 'c']],
    ['the least of several ends', [page('a d', 'd'), page('b c', 'c')], 10, ['a b c', 'c']],
    ['the rest of a page later', [page('a b', 'b'), page('')], 10, ['a b', 'b']],
    ['what comes before the end of a page that has nothing', [page('', 'b'), page('a c')], 10, ['a', 'b']],
    ['a limit before an end', [page('a b c', 'c'), page('d')], 2, ['a b', 'b']],
  ])('show %s', (_what, pages, limit, expected) => {
    expect(shown(mergePages(pages, limit, listedQueues))).toEqual(expected);
  });

  test('are sorted by group, then by name, bytewise', () => {
    const names = ['g#b', 'a', 'g#a', 'f#z', '\u{1F600}', '\uFF5E'];
    expect(names.sort(compareNames)).toEqual(['a', '\uFF5E', '\u{1F600}', 'f#z', 'g#a', 'g#b']);
  });

  test('list a queue once that moves from node to node', () => {
    expect(mergeItems([[stats('a', 0)], [stats('a', 7)]], listedQueues)).toEqual([stats('a', 7)]);
  });

  test('list a schedule once that moves from node to node, as it is at the node that has run it last', () => {
    const after = (runs: number): Schedule => ({ ...NO_SCHEDULE, schedule: 'g#s', runs, missed: 1 });
    expect(mergeItems([[after(4)], [after(5)], [after(3)]], listedSchedules)).toEqual([after(5)]);
  });

  test('end where the schedules would not fit into a reply', () => {
    const size = 64 * 1024;
    const large = (schedule: string): Schedule => ({ ...NO_SCHEDULE, schedule, lastPid: Buffer.alloc(size) });
    const names = Array.from({ length: 100 }, (_, index) => `g#s${100 + index}`);
    const { items, end } = mergePages([{ items: names.map(large), end: undefined }], 1_000, listedSchedules);
    expect(items.length).toBeGreaterThan(10);
    expect(items.length).toBeLessThan(100);
    expect(end?.queue).toBe(names[items.length - 1]);
  });
});

test('sums are added, and missing ones count as nothing', () => {
  const one = { queues: 1, available: 2, leased: 3, delayed: 4, waiting: 0, completed: 5 };
  expect(addTotals([one, undefined, one])).toEqual({
    queues: 2,
    available: 4,
    leased: 6,
    delayed: 8,
    waiting: 0,
    completed: 10,
  });
});
