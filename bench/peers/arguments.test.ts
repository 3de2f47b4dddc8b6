import { describe, expect, test } from 'vitest';
import { PeersUsageError, readPeersArguments } from './arguments.ts';
import { peers } from './peers.ts';

const namesOf = (...argv: string[]): string[] => readPeersArguments(argv).peers.map(({ name }) => name);

describe('the arguments of the comparison', () => {
  test('select by default every peer, and every workload except the long one', () => {
    const { workloads } = readPeersArguments([]);
    expect(namesOf()).toEqual(peers.map(({ name }) => name));
    expect(workloads).toContain('enqueue-single');
    expect(workloads).not.toContain('memory-1m');
  });

  test('add this system to the named peers', () => {
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
    ['an unknown peer', ['kafka'], 'there is no peer kafka; the peers are: taskmaster, taskmaster-postgres, bullmq'],
    ['an unknown workload', ['--workload', 'W1'], 'there is no workload W1; the workloads are: enqueue-single'],
    ['half a round', ['--rounds', '1.5'], '--rounds: 1.5 is not a number above 0'],
    ['an unknown flag', ['--fast'], "Unknown option '--fast'"],
  ])('are refused: %s', (_what, argv, message) => {
    expect(() => readPeersArguments(argv)).toThrow(PeersUsageError);
    expect(() => readPeersArguments(argv)).toThrow(message);
  });
});
