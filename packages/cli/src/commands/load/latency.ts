/** A latency in three digits: `0.85ms`, `12.3ms`, `456ms`, `1.23s`. */
export function latency(ms: number): string {
  if (ms < 999.5) return `${digits(ms)}ms`;
  return `${digits(ms / 1_000)}s`;
}

function digits(number: number): string {
  if (number >= 99.95) return number.toFixed(0);
  return number.toFixed(number >= 9.995 ? 1 : 2);
}
