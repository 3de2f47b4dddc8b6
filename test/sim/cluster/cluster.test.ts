import { randomInt } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { simulate } from './simulation.ts';

/** CLUSTER_SEEDS looks further than the default run does; CLUSTER_FIRST_SEED begins elsewhere. */
const SEEDS = Number(process.env.CLUSTER_SEEDS ?? 500);
const FIRST = Number(process.env.CLUSTER_FIRST_SEED ?? 1);
const AT_ONCE = 50;
/** Seeds that failed once, with what was wrong. */
const REGRESSIONS = [
  // A proxy and the nodes that are left know nothing of each other, as all between them are lost.
  457856294, 93000464, 93005279,
];
/** Played by nobody before; CLUSTER_NEW_SEED plays those of another run again. */
const NEW = Number(process.env.CLUSTER_NEW_SEED ?? 1_000_000 + randomInt(2 ** 32));
const NEW_SEEDS = 25;

async function play(seed: number): Promise<void> {
  const { violations } = await simulate({ seed });
  expect(violations, `npm run sim -- --seed ${seed} --trace`).toEqual([]);
}

describe('a whole cluster to which anything happens keeps the contract', () => {
  const beginnings = Array.from({ length: Math.ceil(SEEDS / AT_ONCE) }, (_, index) => FIRST + index * AT_ONCE);
  test.each(beginnings)('from seed %i on', async (first) => {
    for (let seed = first; seed < Math.min(first + AT_ONCE, FIRST + SEEDS); seed++) await play(seed);
  });

  test.each(REGRESSIONS)('where it did not once, seed %i', play);

  test(`from seed ${NEW} on, which nobody played before`, async () => {
    for (let seed = NEW; seed < NEW + NEW_SEEDS; seed++) await play(seed);
  });
});

test('a seed plays the same way twice, to the last event', async () => {
  const traceOf = async (seed: number): Promise<string[]> => {
    const trace: string[] = [];
    await simulate({ seed, trace: (line) => trace.push(line) });
    return trace;
  };
  const first = await traceOf(7);
  expect(first.length).toBeGreaterThan(100);
  expect(await traceOf(7)).toEqual(first);
  expect(await traceOf(8)).not.toEqual(first);
});
