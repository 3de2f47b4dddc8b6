import type { DurationCounts } from '../domain/commands.ts';

/** From the time between two turns of a fast queue to a day, in ms. */
const BOUNDS = [
  5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 1_800_000, 3_600_000, 21_600_000,
  86_400_000,
] as const;

/** A histogram of durations that is cheap enough to be counted for each task. Not durable. */
export class Durations implements DurationCounts {
  readonly bounds = BOUNDS;
  readonly counts = new Float64Array(BOUNDS.length + 1);
  sumMs = 0;

  count(ms: number): void {
    let index = 0;
    // Most tasks are in the first buckets.
    while (index < BOUNDS.length && ms > (BOUNDS[index] as number)) index++;
    this.counts[index] = (this.counts[index] as number) + 1;
    this.sumMs += ms;
  }
}
