import type { Release } from './gen/taskmaster/v1/tasks.ts';

/** How a task that no worker receives is released: it is available at once, and its attempt does not count. */
export const REFUND: Omit<Release, 'queue' | 'pid' | 'leaseToken'> = {
  delayMs: 0,
  refundAttempt: true,
  error: undefined,
  deadLetter: false,
  runAtUnixMs: 0,
  waiting: false,
  interrupted: false,
};
