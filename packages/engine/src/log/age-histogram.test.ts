import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ByteReader, ByteWriter, UnreadableBytesError } from '../domain/bytes.ts';
import type { Instant } from '../domain/ids.ts';
import { AgeHistogram } from './age-histogram.ts';

/** Allowed error in ms: a bucket is at least a second wide, or a small part of the largest age so far. */
const allowedError = (greatestAge: number): number => Math.max(1000, greatestAge / 30);

/** A histogram beside the exact list of its instants. */
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

  /** Adds a task whose delay ended a while ago. */
  becomeDue(agoMs: number): void {
    const at = this.#now - agoMs;
    this.#live.push(at);
    this.#live.sort((a, b) => a - b);
    this.ages.add(at as Instant);
  }

  /** `which`: index from the oldest task on. */
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
  test('has about the right age after any additions and removals', () => {
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

  test('has about the right age while a backlog of hours is processed', () => {
    const tasks = new Tasks();
    for (let i = 0; i < 6000; i++) tasks.enqueue(5000);
    for (let i = 0; i < 6000; i++) {
      tasks.dequeue();
      tasks.check();
    }
  });

  test('keeps its age when another task of its instant is added and removed', () => {
    const ages = new AgeHistogram();
    ages.add(0 as Instant);
    ages.add(3_600_000 as Instant);
    ages.remove(3_600_000 as Instant);
    ages.add(3_600_000 as Instant);
    ages.remove(0 as Instant);
    expect(ages.oldest).toBe(3_600_000);
  });

  test('may be older than all tasks added before', () => {
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

test('a damaged histogram is refused before memory is allocated for it', () => {
  const writer = new ByteWriter();
  for (const number of [2 ** 40]) writer.number(number);
  expect(() => AgeHistogram.read(new ByteReader(writer.view()))).toThrow(UnreadableBytesError);
});

test('a histogram behaves the same after it was written and read', () => {
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
