import { describe, expect, test } from 'vitest';
import { type Batch, Gathering } from './gathering.ts';

/** Adds tasks, each named by its key and a number, at these times. */
function gathered(max: number, maxWaitMs: number, ...tasks: readonly [task: string, at: number][]) {
  const gathering = new Gathering<string>(max, maxWaitMs);
  const batches = new Map<string, Batch<string>>();
  for (const [task, at] of tasks) batches.set(task, gathering.add(task, task.charAt(0), at));
  const take = (now: number, isLast = false): string | undefined => gathering.take(now, isLast)?.tasks.join(' ');
  const remove = (task: string): void => gathering.remove(task, batches.get(task) as Batch<string>);
  return { gathering, take, remove };
}

describe('a batch', () => {
  test('starts when it is full, and not before its time otherwise', () => {
    const { gathering, take } = gathered(2, 100, ['a1', 0], ['b1', 10], ['a2', 20]);
    expect([take(20), take(20)]).toEqual(['a1 a2', undefined]);
    expect([gathering.dueAt, gathering.size]).toEqual([110, 1]);
    expect([take(109), take(110), take(110)]).toEqual([undefined, 'b1', undefined]);
    expect([gathering.dueAt, gathering.size]).toEqual([undefined, 0]);
  });

  test('starts at once if no more tasks come', () => {
    const { take } = gathered(2, 100, ['a1', 0], ['b1', 0]);
    expect([take(0, true), take(0, true), take(0, true)]).toEqual(['a1', 'b1', undefined]);
  });

  test('with the task that was leased first starts first, whichever was full first', () => {
    const { take } = gathered(2, 100, ['a1', 0], ['c1', 1], ['b1', 2], ['b2', 3], ['a2', 4]);
    expect([take(200), take(200), take(200)]).toEqual(['a1 a2', 'c1', 'b1 b2']);
  });

  test('that is full has a successor with its key', () => {
    const { take } = gathered(2, 100, ['a1', 0], ['a2', 0], ['a3', 5]);
    expect([take(5), take(5), take(105)]).toEqual(['a1 a2', undefined, 'a3']);
  });
});

describe('a suspected task', () => {
  test('that does not fit into its batch opens another one, behind those of other keys that opened before', () => {
    const { gathering, take } = gathered(4, 100, ['a1', 0], ['a2', 0], ['b1', 5]);
    gathering.add('a3', 'a', 10, 2);
    expect(gathering.dueAt).toBe(105);
    expect([take(10), take(105), take(105), take(110)]).toEqual(['a1 a2', 'b1', undefined, 'a3']);
  });
});

describe('a task that is taken out', () => {
  test('makes room in a batch that is not full, and none in one that was', () => {
    const { gathering, take, remove } = gathered(2, 100, ['a1', 0], ['b1', 0], ['b2', 0]);
    remove('a1');
    remove('b2');
    expect(gathering.size).toBe(1);
    expect([take(0), take(0, true)]).toEqual(['b1', undefined]);
  });

  test('takes its batch along if it was the last one', () => {
    const { gathering, take, remove } = gathered(2, 100, ['a1', 0], ['b1', 0], ['b2', 0]);
    for (const task of ['a1', 'b1', 'b2']) remove(task);
    expect([gathering.size, gathering.dueAt, take(200, true)]).toEqual([0, undefined, undefined]);
  });

  test('stays in a batch that was taken', () => {
    const { gathering, take, remove } = gathered(1, 0, ['a1', 0]);
    expect(take(0)).toBe('a1');
    remove('a1');
    expect(gathering.size).toBe(0);
  });
});

test('those who wait hear that their batch is taken, by a handler or by a stop', () => {
  const gathering = new Gathering<string>(2, 100);
  const heard: string[] = [];
  for (const task of ['a1', 'a2', 'b1']) gathering.add(task, task.charAt(0), 0).onTaken.push(() => heard.push(task));
  gathering.take(0, false);
  expect(heard).toEqual(['a1', 'a2']);
  expect(gathering.takeAll()).toEqual(['b1']);
  expect(heard).toEqual(['a1', 'a2', 'b1']);
});
