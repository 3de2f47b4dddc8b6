import { describe, expect, test } from 'vitest';
import { PeersUsageError, readPeersArguments } from './arguments.ts';
import { peers } from './peers.ts';

const namesOf = (...argv: string[]): string[] => readPeersArguments(argv).peers.map(({ name }) => name);

describe('the arguments of the comparison', () => {
  test('mean every peer, and every workload but the one that takes long', () => {
    const { workloads } = readPeersArguments([]);
    expect(namesOf()).toEqual(peers.map(({ name }) => name));
    expect(workloads).toContain('enqueue-single');
    expect(workloads).not.toContain('memory-1m');
  });

  test('keep this system among those that are named', () => {
    expect(namesOf('rabbitmq', 'bullmq', 'rabbitmq')).toEqual(['taskmaster', 'rabbitmq', 'bullmq']);
    expect(namesOf('taskmaster')).toEqual(['taskmaster']);
  });

  test('choose workloads, lengths and a file', () => {
    const argv = ['--workload', 'worker', '--workload', 'memory-1m', '--seconds', '0.5', '--rounds', '2', '--out', 'f'];
    expect(readPeersArguments(argv)).toMatchObject({
      workloads: ['worker', 'memory-1m'],
      runMs: 500,
      rounds: 2,
      out: 'f',
    });
  });

  test.each([
    ['a peer nobody knows', ['kafka'], 'no peer is named kafka; there are: taskmaster, bullmq'],
    ['a workload nobody knows', ['--workload', 'W1'], 'no workload is named W1; there are: enqueue-single'],
    ['half a round', ['--rounds', '1.5'], '--rounds: 1.5 is not a number above 0'],
    ['a flag nobody knows', ['--fast'], "Unknown option '--fast'"],
  ])('are refused: %s', (_what, argv, message) => {
    expect(() => readPeersArguments(argv)).toThrow(PeersUsageError);
    expect(() => readPeersArguments(argv)).toThrow(message);
  });
});
