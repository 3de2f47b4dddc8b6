import type { Random } from './random.ts';

/** For jitter and sampling. Not for secrets. */
export const systemRandom: Random = { next: () => Math.random() };
