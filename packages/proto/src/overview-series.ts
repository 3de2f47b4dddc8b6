import type { OverviewHistory } from './gen/taskmaster/v1/overview.ts';

/** The series of an `OverviewHistory`: tasks, then rates per second. */
export const overviewSeries = [
  'available',
  'leased',
  'delayed',
  'enqueued',
  'completed',
  'failed',
  'deadLettered',
] as const satisfies readonly (keyof OverviewHistory)[];
export type OverviewSeries = (typeof overviewSeries)[number];
