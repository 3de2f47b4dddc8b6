const unitMs = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** A duration: a number of ms, or text such as `'250ms'`, `'1.5s'`, `'5m'`, `'2h'`, `'7d'`. */
export type Duration = number | `${number}${keyof typeof unitMs}`;

const pattern = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;

/**
 * The duration in whole ms, rounded. Any string is accepted as an argument, for values of configurations and command lines.
 * @param what name of the value in the error message.
 * @throws TypeError if it is negative, not finite, or not of the form above.
 */
export function durationMs(duration: Duration | (string & {}), what = 'duration'): number {
  if (typeof duration === 'number') {
    if (Number.isFinite(duration) && duration >= 0) return Math.round(duration);
  } else if (typeof duration === 'string') {
    const [, digits, unit] = pattern.exec(duration) ?? [];
    if (digits !== undefined && unit !== undefined) {
      return Math.round(Number(digits) * unitMs[unit as keyof typeof unitMs]);
    }
  }
  const shown = typeof duration === 'string' ? `'${duration}'` : String(duration);
  throw new TypeError(`${what}: ${shown} is not a number of ms or text such as '250ms', '30s', '5m', '2h' or '7d'`);
}

/**
 * A lease duration in ms. 0 is refused, because in the protocol it means the default.
 * @throws TypeError if it is no duration, or less than a millisecond.
 */
export function leaseDurationMs(duration: Duration, what: string): number {
  const ms = durationMs(duration, what);
  if (ms < 1) throw new TypeError(`${what}: a lease lasts at least 1ms`);
  return ms;
}

/**
 * A time limit in ms. 0 is refused, because in the protocol it means that there is none.
 * @throws TypeError if it is no duration, or less than a millisecond.
 */
export function timeLimitMs(duration: Duration, what = 'timeLimit'): number {
  const ms = durationMs(duration, what);
  if (ms < 1) throw new TypeError(`${what}: a time limit is at least 1ms`);
  return ms;
}

/**
 * A date in ms since 1970. At least 1, because 0 means none in the protocol.
 * @throws TypeError if it is no valid date.
 */
export function dateMs(date: Date, what: string): number {
  const ms = date instanceof Date ? date.getTime() : Number.NaN;
  if (Number.isNaN(ms)) throw new TypeError(`${what}: ${String(date)} is not a valid Date`);
  return Math.max(1, ms);
}
