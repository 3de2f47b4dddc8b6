import { ManualTiming } from '@taskmaster/client/testing';
import { expect, test } from 'vitest';
import { Meter } from './meter.ts';
import { Pauses } from './pauses.ts';
import { Timeline } from './timeline.ts';

test('a long load has at most 600 intervals, which become longer', () => {
  const timeline = new Timeline(1_000);
  for (let second = 0; second < 5_000; second++) {
    const interval = timeline.at(second * 1_000);
    interval.callsOf('enqueue').tasks++;
    interval.openTasks = second;
  }
  expect(timeline.intervalMs).toBe(16_000);
  expect(timeline.intervals).toHaveLength(Math.ceil(5_000 / 16));
  expect(timeline.intervals[0]).toMatchObject({ openTasks: 15 });
  expect(timeline.total().callsOf('enqueue').tasks).toBe(5_000);
});

test('timelines with intervals of different lengths can be added', () => {
  const [fine, coarse] = [new Timeline(1_000), new Timeline(2_000)];
  for (const at of [0, 1_000, 2_000]) fine.at(at).callsOf('enqueue').tasks += 1;
  fine.at(2_000).openTasks = 5;
  coarse.at(0).callsOf('enqueue').tasks += 10;
  for (const [one, other] of [
    [fine, coarse],
    [coarse, fine],
  ] as const) {
    const sum = new Timeline(1_000);
    sum.add(one);
    sum.add(other);
    expect(sum.intervals.map((interval) => interval.callsOf('enqueue').tasks)).toEqual([12, 1]);
    expect(sum.intervals[1]?.openTasks).toBe(5);
  }
});

test('tasks stay open in an interval without calls', async () => {
  const timing = new ManualTiming();
  const meter = new Meter(timing);
  meter.tasksChanged(7);
  await timing.advance(3_500);
  meter.finish();
  expect(meter.timeline.intervals.map(({ openTasks }) => openTasks)).toEqual([7, 7, 7, 7]);
});

test('the longest pause is the time in which a group had calls waiting and none was answered', () => {
  const pauses = new Pauses(0);
  pauses.began('a', 0);
  pauses.succeeded('a', 100);
  // Nothing waits from 100 to 500.
  pauses.began('a', 500);
  pauses.began('a', 510);
  pauses.succeeded('a', 520);
  pauses.failed('a');
  pauses.began('a', 700);
  pauses.began('b', 700);
  pauses.succeeded('b', 750);
  pauses.succeeded('a', 800);
  expect(pauses.longest).toEqual({ ms: 280, group: 'a', endedAtMs: 800 });
  pauses.began('b', 800);
  pauses.finish(1_200);
  expect(pauses.longest).toEqual({ ms: 400, group: 'b', endedAtMs: 1_200 });
});
