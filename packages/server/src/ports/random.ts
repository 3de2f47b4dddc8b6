/** Randomness handed in, so that a seed repeats a run. */
export interface Random {
  /** Uniform in [0, 1). */
  next(): number;
}
