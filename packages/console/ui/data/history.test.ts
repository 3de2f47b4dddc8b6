import { QueueHistory, QueueStats, QueueWatch } from '@taskmaster/proto/messages';
import { expect, test } from 'vitest';
import { historyOf } from './history.ts';
import { joined, type OverviewHistory } from './overview.ts';

const NOTHING = new Uint8Array(0);

test('the samples of a queue end with the queue as it is now', () => {
  const history = {
    ...QueueHistory.decode(NOTHING),
    stepMs: 10,
    lastUnixMs: 100,
    available: [-1, 5],
    leased: [2, 3],
    enqueueRate: [1, 2],
  };
  const watch = { ...QueueWatch.decode(NOTHING), failureRate: 3, history };
  expect(historyOf({ ...QueueStats.decode(NOTHING), available: 7, leased: 1, enqueueRate: 4, watch }, 105)).toEqual({
    at: [90, 100, 105],
    available: [null, 5, 7],
    leased: [2, 3, 1],
    delayed: [null, null, 0],
    enqueueRate: [1, 2, 4],
    completeRate: [null, null, 0],
    failureRate: [null, null, 3],
  });
  expect(historyOf({ ...QueueStats.decode(NOTHING), available: 7 }, 105)).toMatchObject({
    at: [105],
    failureRate: [null],
  });
});

test('later samples of the cluster come behind those that are known', () => {
  const samples = (...at: number[]): OverviewHistory => ({
    stepMs: 10,
    at,
    available: at,
    leased: at,
    delayed: at,
    enqueued: at,
    completed: at,
    failed: at.map(() => null),
  });
  expect(joined(undefined, samples(1, 2))).toEqual(samples(1, 2));
  expect(joined(samples(1, 2), samples())).toEqual(samples(1, 2));
  expect(joined(samples(1, 2), samples(2, 3, 4))).toEqual(samples(1, 2, 3, 4));
  const many = Array.from({ length: 720 }, (_, at) => at);
  expect(joined(samples(...many), samples(720)).at).toHaveLength(720);
});
