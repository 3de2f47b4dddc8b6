/** A random source. Tests pass one with a seed, to repeat a run. */
export interface Random {
  /** Uniform in [0, 1). */
  next(): number;
}
