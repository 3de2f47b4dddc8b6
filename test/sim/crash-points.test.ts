import type { Instant } from '@taskmaster/engine/domain';
import { EngineHarness, type HarnessOptions, pidsOf, SeededRandom } from '@taskmaster/engine/testing';
import { openOnSim, SimDatabase } from '@taskmaster/postgres/testing';
import { describe, expect, test } from 'vitest';
import { SCRIPT, type ScriptCall, type ScriptTurn, type Tokens } from './crash-script.ts';
import { expectOneOf, expectSoundDisk, observe, type SeenQueue } from './observe.ts';

/** SIM_SEEDS: number of seeds of a longer run. */
const SEEDS = process.env.SIM_SEEDS === undefined ? undefined : Number(process.env.SIM_SEEDS);
/** More durable steps than a restart has. Some restarts crash, too. */
const STEPS_OF_A_RESTART = 12;

const callsOf = (turn: ScriptTurn) => (typeof turn === 'number' ? [] : turn);
const CALLS = SCRIPT.flatMap(callsOf).length;

/** With a disk that takes no time, answers that are sent too early would not be noticed. */
const LATENCY = { writeMs: 1, syncMs: 1 };
/** Longer than any call with its background work. */
const LONGER_THAN_A_CALL_MS = 20;

/**
 * The state at instant `atMs` after the first `playedCalls` calls of the script, without a crash. Undefined if the calls take
 * longer.
 */
async function stateAfter(
  options: HarnessOptions,
  playedCalls: number,
  atMs: number,
): Promise<SeenQueue[] | undefined> {
  const h = new EngineHarness(options);
  await h.open();
  const tokens: Tokens = new Map();
  let left = playedCalls;
  for (const turn of SCRIPT) {
    if (typeof turn === 'number') {
      if (h.clock.now() + turn > atMs) break;
      await h.clock.advance(turn);
      continue;
    }
    const calls = turn.slice(0, left);
    if (calls.length === 0) break;
    await h.clock.run(Promise.all(calls.map((call) => call(h, tokens))));
    left -= calls.length;
    await h.clock.advance(LONGER_THAN_A_CALL_MS);
  }
  const waitMs = atMs - h.clock.now();
  if (waitMs >= 0) await h.clock.advance(waitMs);
  const seen = waitMs >= 0 ? await h.clock.run(observe(h)) : undefined;
  await h[Symbol.asyncDispose]();
  return seen;
}

/** As `stateAfter`, but computes each state once, because states are the same for every crash. */
function oracle(options: HarnessOptions): (playedCalls: number, atMs: number) => Promise<SeenQueue[] | undefined> {
  const known = new Map<string, Promise<SeenQueue[] | undefined>>();
  return (playedCalls, atMs) => {
    const key = `${playedCalls} ${atMs}`;
    const state = known.get(key) ?? stateAfter(options, playedCalls, atMs);
    known.set(key, state);
    return state;
  };
}

/** One run of the script, which a crash may end. */
class CrashRun {
  readonly h: EngineHarness;
  started = 0;
  acknowledged = 0;
  readonly #crashed = Promise.withResolvers<'crashed'>();
  #isCrashed = false;

  constructor(options: HarnessOptions, crashAt: number) {
    this.h = new EngineHarness(options);
    this.h.disk.onStep = ({ number }) => {
      if (number === crashAt) this.#crash();
    };
  }

  /** Resolves with true if the script ended before the crash. */
  async play(): Promise<boolean> {
    if ((await this.#unlessCrashed(this.h.open())) === 'crashed') return false;
    const tokens: Tokens = new Map();
    for (const turn of SCRIPT) {
      const played = typeof turn === 'number' ? this.h.clock.advance(turn) : this.#ask(turn, tokens);
      if ((await this.#unlessCrashed(played)) === 'crashed') return false;
    }
    return true;
  }

  async #ask(calls: readonly ScriptCall[], tokens: Tokens): Promise<void> {
    this.started += calls.length;
    const answers = calls.map(async (call) => {
      await call(this.h, tokens);
      this.acknowledged++;
    });
    await this.h.clock.run(Promise.race([Promise.all(answers), this.#crashed.promise]));
    // Background work after the answers.
    await this.h.clock.advance(LONGER_THAN_A_CALL_MS);
  }

  #crash(): void {
    this.#isCrashed = true;
    this.h.clock.stop();
    this.h.disk.onStep = undefined;
    this.h.disk.crash();
    this.#crashed.resolve('crashed');
  }

  async #unlessCrashed(work: Promise<unknown>): Promise<'crashed' | 'done'> {
    try {
      await work;
    } catch (error) {
      if (!this.#isCrashed) throw error;
    }
    return this.#isCrashed ? 'crashed' : 'done';
  }
}

/** As `CrashRun`, on a simulated database that outlives the process. */
class DatabaseRun {
  readonly h: EngineHarness;
  readonly database: SimDatabase;
  started = 0;
  acknowledged = 0;
  /** Commits so far, each before and after it is applied. */
  steps = 0;
  readonly #crashAt: number;
  readonly #crashed = Promise.withResolvers<'crashed'>();
  #isCrashed = false;

  constructor(seed: number, crashAt: number) {
    this.h = new EngineHarness({ seed });
    this.#crashAt = crashAt;
    this.database = new SimDatabase({ random: new SeededRandom(seed), after: this.#after, latencyMs: 0 });
    this.database.onCommit = () => this.#step();
  }

  /** Timers outside of the process. */
  readonly #after = (ms: number, callback: () => void) => {
    const { time } = this.h.clock;
    return time.at((time.now() + Math.ceil(ms)) as Instant, callback);
  };

  /** Opens the store, in the place of an earlier process. */
  async open(): Promise<void> {
    const { h } = this;
    h.store = await h.clock.run(openOnSim(this.database, 'node', this.#after));
    await h.clock.run(Promise.race([h.start(), this.#crashed.promise]));
  }

  async play(): Promise<boolean> {
    await this.open();
    const tokens: Tokens = new Map();
    for (const turn of SCRIPT) {
      if (this.#isCrashed) break;
      if (typeof turn === 'number') await this.h.clock.advance(turn);
      else await this.#ask(turn, tokens);
    }
    return !this.#isCrashed;
  }

  async #ask(calls: readonly ScriptCall[], tokens: Tokens): Promise<void> {
    this.started += calls.length;
    const answers = calls.map(async (call) => {
      await call(this.h, tokens);
      if (!this.#isCrashed) this.acknowledged++;
    });
    await this.h.clock.run(Promise.race([Promise.all(answers), this.#crashed.promise]));
    if (!this.#isCrashed) await this.h.clock.advance(LONGER_THAN_A_CALL_MS);
  }

  /** The process ends in the moment in which the database applies the commit, or does not. */
  #step(): void {
    this.steps++;
    if (this.steps !== this.#crashAt) return;
    this.#isCrashed = true;
    this.h.lose();
    this.#crashed.resolve('crashed');
    const isBefore = this.steps % 2 === 1;
    if (isBefore) throw new Error('the process ended before its commit was sent');
  }
}

/** Opens the disk after a crash. The first attempt may crash, too, after `crashAfter` steps. */
async function reopen(h: EngineHarness, crashAfter: number): Promise<void> {
  const last = h.disk.steps + crashAfter;
  h.disk.crashAt(last);
  try {
    await h.crash();
  } catch (error) {
    if (h.disk.steps !== last) throw error;
    await h.crash();
  }
  h.disk.crashAt(0);
}

async function expectItWorks(h: EngineHarness): Promise<void> {
  const { clock } = h;
  // Wait for a checkpoint, which also writes the queues that no call uses from now on.
  for (const queue of ['new', 'crawl#new']) await clock.run(h.enqueue(queue, ['n']));
  await clock.advance(600);
  const seen = await clock.run(observe(h));
  await h.crash();
  expect(await clock.run(observe(h))).toEqual(seen);
  for (const queue of ['crawl#index', 'other', 'crawl#fetch', 'new']) {
    const leased = await clock.run(h.lease(queue, { max: 100, for: 1000 }));
    if (queue === 'new') expect(pidsOf(leased)).toEqual(['n']);
    for (const { pid, token } of leased) await clock.run(h.update({ dequeue: [{ queue, pid, token }] }));
  }
}

// More seeds without atomic batches, because more states are possible.
describe.each([
  { atomicBatches: true, seeds: SEEDS ?? 1 },
  { atomicBatches: false, seeds: SEEDS ?? 1 },
])('a crash at every durable step (atomic batches: $atomicBatches)', ({ atomicBatches, seeds }) => {
  test.each(Array.from({ length: seeds }, (_, i) => i + 1))(
    'keeps every acknowledged call, and every other call entirely or not at all (seed %i)',
    async (seed) => {
      const options: HarnessOptions = { seed, atomicBatches, ...LATENCY };
      const allowedState = oracle(options);
      const whole = new CrashRun(options, 0);
      expect(await whole.play()).toBe(true);
      const { steps } = whole.h.disk;
      const random = new SeededRandom(seed);
      expect(steps).toBeGreaterThan(CALLS);

      for (let step = 1; step <= steps; step++) {
        // The losses also differ from step to step.
        const run = new CrashRun({ ...options, seed: seed * 10_000 + step }, step);
        expect(await run.play(), `step ${step} was not reached`).toBe(false);
        const { h, acknowledged, started } = run;
        await reopen(h, random.int(STEPS_OF_A_RESTART) + 1);
        await h.clock.advance(LONGER_THAN_A_CALL_MS);
        const seen = await h.clock.run(observe(h));
        const allowed: SeenQueue[][] = [];
        for (let played = acknowledged; played <= started; played++) {
          const state = await allowedState(played, h.clock.now());
          if (state) allowed.push(state);
        }
        expectOneOf(seen, allowed, `crash at step ${step}: ${acknowledged} of ${started} calls were acknowledged`);
        await expectSoundDisk(h);
        await expectItWorks(h);
        await expectSoundDisk(h);
        await h[Symbol.asyncDispose]();
      }
    },
    60_000,
  );
});

describe('a crash at every commit to a database', () => {
  test('keeps every acknowledged call, and every other call entirely or not at all', async () => {
    const seed = 1;
    const allowedState = oracle({ seed });
    const whole = new DatabaseRun(seed, 0);
    expect(await whole.play()).toBe(true);
    expect(whole.steps).toBeGreaterThan(2 * CALLS);
    for (let step = 1; step <= whole.steps; step++) {
      const run = new DatabaseRun(seed, step);
      expect(await run.play(), `step ${step} was not reached`).toBe(false);
      const { h, acknowledged, started } = run;
      await run.open();
      await h.clock.advance(LONGER_THAN_A_CALL_MS);
      const seen = await h.clock.run(observe(h));
      const allowed: SeenQueue[][] = [];
      for (let played = acknowledged; played <= started; played++) {
        const state = await allowedState(played, h.clock.now());
        if (state) allowed.push(state);
      }
      expectOneOf(seen, allowed, `crash at step ${step}: ${acknowledged} of ${started} calls were acknowledged`);
      await h[Symbol.asyncDispose]();
    }
  }, 60_000);
});
