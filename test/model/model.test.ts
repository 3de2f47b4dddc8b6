import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { judge, report } from './judge.ts';
import { runOnRocksDb } from './rocks-run.ts';
import { runScenario } from './run-scenario.ts';
import { type Scenario, scenarios } from './scenario.ts';

/** MODEL_SEED and MODEL_RUNS: the first seed and the number of runs of a longer test. A run takes about 0.1 s. */
const seed = Number(process.env.MODEL_SEED ?? 20_260_101);
const numRuns = Number(process.env.MODEL_RUNS ?? 150);

/** Only a few, because a real disk is slow. */
const onRocksDb = Number(process.env.MODEL_ROCKS_RUNS ?? 8);
/** The time that RocksDB may take for a step, in the model. */
const REAL_DISK = { atomicBatches: true, writeMs: 10, syncMs: 10, readMs: 10 };

async function check(scenario: Scenario): Promise<'explained' | 'undecided'> {
  const run = await runScenario(scenario);
  const verdict = judge(scenario, run);
  if (run.faults.length > 0 || verdict.kind === 'impossible') throw new Error(report(run, verdict));
  return verdict.kind === 'undecided' ? 'undecided' : 'explained';
}

interface Regression {
  readonly name: string;
  readonly scenario: Scenario;
}

const regressions = JSON.parse(readFileSync(new URL('regressions.json', import.meta.url), 'utf8')) as Regression[];

describe('the engine behaves like the model', () => {
  test.each(regressions)('$name', async ({ scenario }) => {
    expect(await check(scenario)).toBe('explained');
  });

  test(
    `in ${numRuns} random histories`,
    async () => {
      let undecided = 0;
      const property = fc.asyncProperty(scenarios, async (scenario) => {
        if ((await check(scenario)) === 'undecided') undecided++;
      });
      await fc.assert(property, { seed, numRuns });
      // A search without a verdict finds no fault. About 2 % are left; of few histories it may be more by chance.
      expect(undecided / numRuns).toBeLessThan(0.04);
    },
    60_000 + numRuns * 1000,
  );

  test(
    `in ${onRocksDb} random histories on RocksDB`,
    async () => {
      const property = fc.asyncProperty(scenarios, async (any) => {
        const scenario = { ...any, disk: REAL_DISK };
        await using dir = await temporaryDirectory();
        const run = await runOnRocksDb(scenario, dir.path);
        const verdict = judge(scenario, run);
        if (run.faults.length > 0 || verdict.kind === 'impossible') throw new Error(report(run, verdict));
      });
      // Not shrunk, because a run takes a second.
      await fc.assert(property, { seed, numRuns: onRocksDb, endOnFailure: true });
      expect(onRocksDb).toBeGreaterThan(0);
    },
    60_000 + onRocksDb * 10_000,
  );
});
