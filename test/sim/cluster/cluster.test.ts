import { describe, expect, test } from 'vitest';
import { simulate } from './simulation.ts';

/** CLUSTER_SEEDS looks further than the default run does; CLUSTER_FIRST_SEED begins elsewhere. */
const SEEDS = Number(process.env.CLUSTER_SEEDS ?? 500);
const FIRST = Number(process.env.CLUSTER_FIRST_SEED ?? 1);
const AT_ONCE = 50;

describe('a whole cluster to which anything happens keeps the contract', () => {
  const beginnings = Array.from({ length: Math.ceil(SEEDS / AT_ONCE) }, (_, index) => FIRST + index * AT_ONCE);
  test.each(beginnings)('from seed %i on', async (first) => {
    for (let seed = first; seed < Math.min(first + AT_ONCE, FIRST + SEEDS); seed++) {
      const { violations } = await simulate({ seed });
      expect(violations, `npm run sim -- --seed ${seed} --trace`).toEqual([]);
    }
  });
});

test('a seed plays the same way twice, to the last event', async () => {
  const play = async (seed: number): Promise<string[]> => {
    const trace: string[] = [];
    await simulate({ seed, trace: (line) => trace.push(line) });
    return trace;
  };
  const first = await play(7);
  expect(first.length).toBeGreaterThan(100);
  expect(await play(7)).toEqual(first);
  expect(await play(8)).not.toEqual(first);
});
