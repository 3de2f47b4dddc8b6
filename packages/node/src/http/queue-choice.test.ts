import { describe, expect, test } from 'vitest';
import { type Comparable, QueueChoice } from './queue-choice.ts';

const queue = (name: string, size: number, activity = 0, failures = 0): Comparable => {
  return { queue: name, size, activity, failures };
};
const many = (prefix: string, count: number, size: number, activity = 0): Comparable[] =>
  Array.from({ length: count }, (_, index) => queue(`${prefix}${String(index).padStart(4, '0')}`, size, activity));

/** Looks at the queues, some a page. Returns the names that are chosen, and asserts that no queue is lost. */
function chosenOf(choice: QueueChoice, queues: readonly Comparable[], perPage = 7): string[] {
  const look = choice.look<Comparable>();
  const left: Comparable[] = [];
  for (let at = 0; at < queues.length; at += perPage) left.push(...look.add(queues.slice(at, at + perPage)));
  const chosen = choice.choose(look);
  const all = [...left, ...look.kept].map((one) => one.queue).toSorted();
  expect(all).toEqual(queues.map((one) => one.queue).toSorted());
  return [...chosen].toSorted();
}

describe('queues with series of their own', () => {
  test('are the largest, the busiest, and those that fail', () => {
    const queues = [...many('large', 100, 1_000), queue('busy', 0, 50), queue('failing', 1, 1, 0.1)];
    const chosen = chosenOf(new QueueChoice(9), queues);
    expect(chosen).toHaveLength(9);
    expect(chosen).toEqual(expect.arrayContaining(['busy', 'failing', 'large0000']));
  });

  test('are all queues if there is room, empty ones too', () => {
    expect(chosenOf(new QueueChoice(3), [queue('a', 0), queue('b', 5), queue('c', 0)])).toEqual(['a', 'b', 'c']);
    expect(chosenOf(new QueueChoice(0), [queue('a', 1)])).toEqual([]);
  });

  test('stay chosen while the order among similar queues changes', () => {
    const choice = new QueueChoice(10);
    const queues = many('q', 60, 100, 10);
    const first = chosenOf(choice, queues);
    for (let look = 0; look < 50; look++) {
      const changed = queues.map((one, index) => ({
        ...one,
        size: one.size + ((index * 37 + look * 11) % 90),
        activity: one.activity + ((index * 17 + look * 7) % 9),
      }));
      expect(chosenOf(choice, changed)).toEqual(first);
    }
  });

  test('change for one that begins to fail, and it stays when it has stopped', () => {
    const choice = new QueueChoice(6);
    const queues = [...many('busy', 30, 10, 10), queue('bad', 1, 0.01)];
    expect(chosenOf(choice, queues)).not.toContain('bad');
    const failing = queues.map((one) => (one.queue === 'bad' ? { ...one, failures: 0.001 } : one));
    const during = chosenOf(choice, failing);
    expect(during).toContain('bad');
    expect(chosenOf(choice, queues)).toEqual(during);
  });

  test('are never more than the limit, and forget queues that are gone', () => {
    const choice = new QueueChoice(5);
    for (let look = 0; look < 20; look++) {
      const queues = Array.from({ length: 40 }, (_, i) => queue(`q${(i + look * 13) % 97}`, i, (i * 7) % 11, i % 3));
      expect(chosenOf(choice, queues)).toHaveLength(5);
    }
    expect(chosenOf(choice, [queue('x', 1)])).toEqual(['x']);
  });
});
