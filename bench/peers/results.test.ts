import { describe, expect, test } from 'vitest';
import { bestPeer, formatResult, type PeerResult, parseResults, UnreadableResultsError } from './results.ts';

const result = (peer: string, tasksPerS: number | undefined, confirmed = true): PeerResult => ({
  peer,
  workload: 'lease-complete-single',
  durability: 'fsync',
  tasksPerS,
  p50Ms: 1.5,
  p99Ms: 3,
  confirmed,
  versions: `${peer} 1.0`,
});

describe('results of peers', () => {
  test('are read as they were written', () => {
    const results = [result('bullmq', 14_000), result('rabbitmq', 28_000, false), result('graphile-worker', undefined)];
    expect(parseResults(results.map(formatResult).join('\n'))).toEqual(results);
  });

  test('leave out peers that were skipped or failed, and workloads of another version', () => {
    const text = [
      '{"peer":"rabbitmq","skipped":"rabbitmq-server is not installed","install":"apt-get install rabbitmq-server"}',
      '',
      '{"peer":"bullmq","workload":"enqueue-50","error":"the redis-server ended with 1"}',
      '{"peer":"bullmq","workload":"enqueue-5000","durability":"fsync","tasks_per_s":1,"confirmed":true}',
    ];
    expect(parseResults(text.join('\n'))).toEqual([]);
  });

  test.each([
    ['a line that is not JSON', 'bullmq 14000', 'line 1 is not JSON'],
    ['a line that is not an object', '[1]', 'line 1 is not an object'],
    ['an object that is not a result', '{"row":"B1","tasks_per_s":1}', 'line 1 is not a result'],
    ['a result without syncs', formatResult(result('bullmq', 1)).replace('"fsync"', '"relaxed"'), 'durability'],
    ['a figure that is not a number', formatResult(result('bullmq', 1)).replace(':1,', ':"1",'), 'tasks_per_s'],
  ])('refuse %s, and say where', (_what, line, message) => {
    expect(() => parseResults(line)).toThrow(UnreadableResultsError);
    expect(() => parseResults(line)).toThrow(message);
  });
});

describe('the best peer', () => {
  const results = [
    result('taskmaster', 90_000),
    result('bullmq', 14_000),
    result('rabbitmq', 28_000, false),
    result('graphile-worker', undefined),
  ];

  test('is the fastest of the others', () => {
    expect(bestPeer(results, 'lease-complete-single')?.peer).toBe('rabbitmq');
  });

  test('can be chosen among those that confirm', () => {
    expect(bestPeer(results, 'lease-complete-single', ({ confirmed }) => confirmed)?.peer).toBe('bullmq');
  });

  test('is undefined if none was measured', () => {
    expect(bestPeer(results, 'enqueue-50')).toBeUndefined();
  });
});
