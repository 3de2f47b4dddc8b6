const LONGEST_PAUSE_MS = 15_000;

/** How long to wait after so many failures in a row, in ms. */
export const pauseAfter = (failures: number, random: number): number =>
  Math.min(LONGEST_PAUSE_MS, 1_000 * 2 ** (failures - 1)) * (0.75 + random / 4);
