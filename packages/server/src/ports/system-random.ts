import type { Random } from './random.ts';

/** Unpredictable enough for jitter and sampling; not for secrets. */
export const systemRandom: Random = { next: () => Math.random() };
