/** Times of calls, in ms. */
export interface Latencies {
  readonly p50: number;
  readonly p99: number;
  readonly calls: number;
}

/** Makes one call after the other for this long, in ms. */
export async function latenciesOf(call: (number: number) => Promise<unknown>, ms: number): Promise<Latencies> {
  const taken: number[] = [];
  for (const began = performance.now(); performance.now() - began < ms; ) {
    const at = performance.now();
    await call(taken.length);
    taken.push(performance.now() - at);
  }
  taken.sort((a, b) => a - b);
  const quantile = (part: number): number => taken[Math.floor(taken.length * part)] ?? 0;
  return { p50: quantile(0.5), p99: quantile(0.99), calls: taken.length };
}

export const shownLatencies = ({ p50, p99, calls }: Latencies): string =>
  `p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms, ${calls} calls`;
