import { expect, test } from 'vitest';
import { WorkersMeter } from './workers-meter.ts';

function setUp(warmUpMs: number, ms: number, threads = 1) {
  let now = 1_000;
  const meter = new WorkersMeter({ warmUpMs, ms, groups: ['a'], threads }, () => now);
  const at = (sinceBegin: number): void => {
    now = 1_000 + sinceBegin;
  };
  return { meter, at };
}

test('tasks of the warm-up and late tasks do not count, but are in `allTasks`', () => {
  const { meter, at } = setUp(100, 600);
  at(99);
  meter.record(5, 1);
  at(100);
  meter.record(10, 1);
  at(599);
  meter.record(20, 1);
  at(600);
  meter.record(40, 1);
  expect(meter.isOver).toBe(true);
  expect(meter.result(0)).toMatchObject({ tasks: 30, allTasks: 75, elapsedMs: 499 });
});

test('rates are those of whole intervals of 250 ms, including empty ones', () => {
  const { meter, at } = setUp(0, 1_000);
  at(10);
  meter.record(100, 1);
  at(740);
  meter.record(50, 1);
  at(990);
  meter.record(1, 1);
  expect(meter.result(0).perInterval).toEqual([400, 0, 200]);
});

test('continues until as many calls are answered as run concurrently', () => {
  const { meter, at } = setUp(0, 100, 2);
  at(100);
  meter.record(1, 100);
  at(150);
  expect(meter.isOver).toBe(false);
  meter.record(1, 150);
  expect(meter.isOver).toBe(true);
  expect(meter.result(0)).toMatchObject({ tasks: 2, elapsedMs: 150 });
});

test('ends when no task is left', () => {
  const { meter, at } = setUp(0, 1_000);
  at(400);
  meter.record(10, 1);
  at(500);
  meter.dry();
  expect(meter.isOver).toBe(true);
  expect(meter.result(3)).toMatchObject({ tasks: 10, ranDry: true, refused: 3 });
});
