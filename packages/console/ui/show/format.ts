/** How long something takes, in two units at most: `45 s`, `3 min`, `2 h 5 min`, `3 d`. */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = Math.floor(ms / 1_000);
  if (seconds < 10) return `${(Math.floor(ms / 100) / 10).toFixed(1).replace(/\.0$/, '')} s`;
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return minutes < 10 && seconds % 60 > 0 ? `${minutes} min ${seconds % 60} s` : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d`;
}

/** How long something takes, in one unit: for columns of a table. */
export const formatShort = (ms: number): string => formatDuration(ms).split(' ').slice(0, 2).join(' ');

const whole = new Intl.NumberFormat('en-US');

/** A number of things. It is exact below ten millions. */
export function formatCount(count: number): string {
  if (Math.abs(count) < 10_000_000) return whole.format(count);
  const [divisor, unit] = count < 1e9 ? [1e6, ' M'] : [1e9, ' G'];
  return (count / divisor).toFixed(1) + unit;
}

/** `1 task`, `2 tasks`. */
export const formatMany = (count: number, one: string, many = `${one}s`): string =>
  `${formatCount(count)} ${count === 1 ? one : many}`;

/** Something per second. */
export function formatRate(perSecond: number): string {
  if (perSecond < 0.005) return '0/s';
  if (perSecond < 1) return `${perSecond.toFixed(2)}/s`;
  if (perSecond < 10) return `${perSecond.toFixed(1)}/s`;
  return `${formatCount(Math.round(perSecond))}/s`;
}

export function formatBytes(bytes: number): string {
  if (bytes < 1_024) return `${bytes} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes / 1_024;
  let at = 0;
  while (value >= 1_024 && at < units.length - 1) {
    value /= 1_024;
    at++;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

const two = (part: number): string => String(part).padStart(2, '0');

/** A time of day in the zone of the browser, with the date if it is another day than that of `now`. */
export function formatTime(ms: number, now: number): string {
  const at = new Date(ms);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  const today = new Date(now);
  if (at.toDateString() === today.toDateString()) return time;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`;
}

/** `3 min ago`, `in 5 s`. */
export function formatAgo(ms: number, now: number): string {
  const past = now - ms;
  if (Math.abs(past) < 1_000) return 'now';
  return past > 0 ? `${formatDuration(past)} ago` : `in ${formatDuration(-past)}`;
}
