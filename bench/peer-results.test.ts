import { describe, expect, test } from 'vitest';
import { PeerResults, parsePeerResults } from './peer-results.ts';

const ours = { peer: 'bullmq', workload: 'enqueue-single', durability: 'fsync', confirmed: true, versions: 'bullmq 6' };
const earlier = { peer: 'rabbitmq', version: '3.10.8', workload: 'W2', median: true };

const linesOf = (...lines: object[]): string => lines.map((line) => JSON.stringify(line)).join('\n');

describe('the results of other queues', () => {
  test('are read in both formats, also mixed', () => {
    const text = linesOf({ ...ours, tasks_per_s: 27_000 }, { ...earlier, mode: 'sync', tasks_per_s: 28_000 });
    expect(parsePeerResults(text)).toMatchObject([
      { peer: 'bullmq', workload: 'enqueue-single', tasksPerS: 27_000, confirmed: true },
      { peer: 'rabbitmq', workload: 'lease-complete-single', tasksPerS: 28_000, confirmed: false },
    ]);
  });

  test('leave out results without syncs and workloads that no row has', () => {
    const relaxed = { ...earlier, mode: 'relaxed', tasks_per_s: 1 };
    const deep = { ...earlier, mode: 'sync', workload: 'W5-fill', tasks_per_s: 1 };
    const failed = { ...earlier, mode: 'sync', error: 'gone' };
    expect(parsePeerResults(linesOf(relaxed, deep, failed))).toEqual([]);
  });

  test('are refused with a reason if the file is something else', () => {
    expect(() => parsePeerResults('# Results')).toThrow('line 1 is not JSON');
  });

  test('distinguish queues that confirm completions from those that do not', () => {
    const confirmed = { ...earlier, peer: 'bullmq', mode: 'sync', tasks_per_s: 14_000 };
    const peers = new PeerResults(
      parsePeerResults(linesOf({ ...earlier, mode: 'sync', tasks_per_s: 28_000 }, confirmed)),
    );
    expect(peers.best('lease-complete-single')?.peer).toBe('rabbitmq');
    expect(peers.best('lease-complete-single', true)?.peer).toBe('bullmq');
    expect(peers.best('lease-complete-single', false)?.peer).toBe('rabbitmq');
    expect(peers.best('enqueue-50')).toBeUndefined();
  });
});
