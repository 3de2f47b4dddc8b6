import { ByteReader, ByteWriter, type Instant, UnreadableBytesError } from '@taskmaster/server/domain';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AgeHistogram } from './age-histogram.ts';

/** In ms: buckets are at least a second wide, and otherwise a small part of the greatest age there was. */
const allowedError = (greatestAge: number): number => Math.max(1000, greatestAge / 30);

/** Tasks come and go, and the exact answer is known. */
class Tasks {
  readonly ages = new AgeHistogram();
  readonly #live: number[] = [];
  #now = Date.UTC(2026, 0, 1);
  #greatestAge = 0;

  enqueue(afterMs: number): void {
    this.#now += afterMs;
    this.#live.push(this.#now);
    this.ages.add(this.#now as Instant);
  }

  /** A delay that ended a while ago, and was noticed only now. */
  becomeDue(agoMs: number): void {
    const at = this.#now - agoMs;
    this.#live.push(at);
    this.#live.sort((a, b) => a - b);
    this.ages.add(at as Instant);
  }

  /** `which` counts from the oldest one. */
  dequeue(which = 0): void {
    const [at] = this.#live.splice(which % Math.max(1, this.#live.length), 1);
    if (at !== undefined) this.ages.remove(at as Instant);
  }

  check(): void {
    const { oldest } = this.ages;
    const [exact] = this.#live;
    expect(oldest === undefined).toBe(exact === undefined);
    if (oldest === undefined || exact === undefined) return;
    this.#greatestAge = Math.max(this.#greatestAge, this.#now - exact);
    expect(exact - oldest).toBeGreaterThanOrEqual(0);
    expect(exact - oldest).toBeLessThanOrEqual(allowedError(this.#greatestAge));
  }
}

const steps = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant('enqueue' as const), afterMs: fc.nat(100_000) }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('due' as const), agoMs: fc.nat(10_000_000) }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('dequeue' as const), which: fc.constant(0) }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('dequeue' as const), which: fc.nat(1000) }) },
  ),
  { size: 'max', maxLength: 1000 },
);

const encode = (ages: AgeHistogram): Buffer => {
  const writer = new ByteWriter();
  ages.write(writer);
  return Buffer.from(writer.view());
};

describe('the oldest task', () => {
  test('is known about, whatever comes and goes', () => {
    fc.assert(
      fc.property(steps, (all) => {
        const tasks = new Tasks();
        for (const step of all) {
          if (step.kind === 'enqueue') tasks.enqueue(step.afterMs);
          else if (step.kind === 'due') tasks.becomeDue(step.agoMs);
          else tasks.dequeue(step.which);
          tasks.check();
        }
      }),
      { numRuns: 30 },
    );
  });

  test('is known about while a backlog of hours is worked off', () => {
    const tasks = new Tasks();
    for (let i = 0; i < 6000; i++) tasks.enqueue(5000);
    for (let i = 0; i < 6000; i++) {
      tasks.dequeue();
      tasks.check();
    }
  });

  test('is not taken for an older one because another of its instant came and went', () => {
    const ages = new AgeHistogram();
    ages.add(0 as Instant);
    ages.add(3_600_000 as Instant);
    ages.remove(3_600_000 as Instant);
    ages.add(3_600_000 as Instant);
    ages.remove(0 as Instant);
    expect(ages.oldest).toBe(3_600_000);
  });

  test('may have come from elsewhere: older than all before it', () => {
    const ages = new AgeHistogram();
    ages.add(5000 as Instant);
    ages.add(3000 as Instant);
    expect(ages.oldest).toBe(3000);
    ages.remove(3000 as Instant);
    expect(ages.oldest).toBe(5000);
  });
});

test('a year of tasks takes a few hundred bytes', () => {
  const tasks = new Tasks();
  for (let i = 0; i < 10_000; i++) tasks.enqueue((365 * 24 * 3600 * 1000) / 10_000);
  expect(encode(tasks.ages).length).toBeLessThan(800);
});

test('a damaged histogram is refused before memory is taken for it', () => {
  const writer = new ByteWriter();
  for (const number of [2 ** 40]) writer.number(number);
  expect(() => AgeHistogram.read(new ByteReader(writer.view()))).toThrow(UnreadableBytesError);
});

test('a histogram that was written and read goes on as if nothing had happened', () => {
  const instants = fc.array(fc.nat(1e9), { minLength: 1, maxLength: 300 });
  fc.assert(
    fc.property(instants, instants, (before, after) => {
      const ages = new AgeHistogram();
      for (const at of before) ages.add(at as Instant);
      const read = AgeHistogram.read(new ByteReader(encode(ages)));
      for (const at of after) for (const each of [ages, read]) each.add(at as Instant);
      for (const at of before) for (const each of [ages, read]) each.remove(at as Instant);
      expect(encode(read).equals(encode(ages))).toBe(true);
    }),
  );
});
