/** Numbers and durations for people. */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat('en-US', { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** `1,234,567`. */
export function count(number: number): string {
  return whole.format(number);
}

/** `1,234 tasks`, `1 task`. */
export function countOf(number: number, noun: string): string {
  return `${count(number)} ${noun}${number === 1 ? '' : 's'}`;
}

/** A duration in at most two units: `850ms`, `12s`, `3m12s`, `4h05m`, `2d03h`. */
export function duration(ms: number): string {
  const left = Math.max(0, ms);
  if (Math.round(left) < SECOND) return `${Math.round(left)}ms`;
  if (left < 10 * SECOND) return `${tenths.format(Math.min(left / SECOND, 9.9))}s`;
  // Round to the smaller unit first. Otherwise 3m60s could appear.
  if (left < HOUR) return pair(Math.round(left / SECOND), 'm', 's', 60);
  if (left < DAY) return pair(Math.round(left / MINUTE), 'h', 'm', 60);
  return pair(Math.round(left / HOUR), 'd', 'h', 24);
}

/** Per second: `0`, `0.4`, `12.5`, `1,234`. */
export function rate(perSecond: number): string {
  if (perSecond < 0.05) return '0';
  return perSecond < 100 ? tenths.format(perSecond) : whole.format(perSecond);
}

/** `512 B`, `1.5 KiB`, `3.0 MiB`. */
export function bytes(number: number): string {
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  if (number < 1024) return `${number} B`;
  let value = number / 1024;
  let unit = 0;
  while (value >= 1023.95 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${tenths.format(value)} ${units[unit]}`;
}

function pair(smaller: number, large: string, small: string, perLarge: number): string {
  const larger = Math.floor(smaller / perLarge);
  const rest = smaller % perLarge;
  if (larger === 0) return `${rest}${small}`;
  if (large === 'h' && larger === 24) return '1d00h';
  if (large === 'm' && larger === 60) return '1h00m';
  return `${larger}${large}${String(rest).padStart(2, '0')}${small}`;
}
