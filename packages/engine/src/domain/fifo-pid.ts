import { limits } from '@taskmaster/proto';
import type { Instant, Pid } from './ids.ts';
import { pidAfter } from './keys.ts';

const DIGITS = 16;
const COUNTER = /[0-9a-f]{16}$/;
const LAST = 'f'.repeat(DIGITS);
const FIRST = '1'.padStart(DIGITS, '0');
/** Numbers up to this one are exact and smaller than `LAST`. */
const FAR = Number.MAX_SAFE_INTEGER - 1;

/**
 * A PID behind every PID of the queue (the paper, 3.2). `largest`: the largest PID that the queue has had.
 *
 * Usually 16 hexadecimal digits of the microseconds since 1970: readable, sorted by time, and not reused when a queue
 * ends and is created again. Behind a larger PID, it increments the last 16 digits of that PID or appends a counter to it.
 * Undefined if there is no larger PID, because the queue has had a PID of 4096 bytes 0xff.
 */
export function nextFifoPid(largest: Pid | undefined, now: Instant): Pid | undefined {
  const byTime = pidOfInstant(now);
  if (largest === undefined || largest < byTime) return byTime;
  if (largest === last.pid && last.value < FAR) return assigned(last.value + 1);

  const counter = largest.slice(-DIGITS);
  if (COUNTER.test(counter) && counter !== LAST) {
    const value = Number.parseInt(counter, 16);
    if (largest.length === DIGITS && value < FAR) return assigned(value + 1);
    return (largest.slice(0, -DIGITS) + plusOne(counter)) as Pid;
  }
  if (largest.length + DIGITS <= limits.pidBytes) return (largest + FIRST) as Pid;
  return increment(largest);
}

/** Cached, because most PIDs follow the last assigned one, or another one of the same millisecond. */
let last = { pid: '' as Pid, value: 0 };
let latest = { now: -1, pid: '' as Pid };

function assigned(value: number): Pid {
  last = { pid: pidOfValue(value), value };
  return last.pid;
}

function pidOfInstant(now: Instant): Pid {
  if (latest.now !== now) latest = { now, pid: pidOfValue(now * 1000) };
  return latest.pid;
}

const bytes = Buffer.alloc(DIGITS / 2);

/** Takes a third of the time of `Number.toString(16)` for numbers beyond 2^31. */
function pidOfValue(value: number): Pid {
  bytes.writeUInt32BE(Math.floor(value / 2 ** 32));
  bytes.writeUInt32BE(value >>> 0, 4);
  return bytes.toString('hex') as Pid;
}

/** Numbers are exact for all times in microseconds. Only digits in users' own PIDs may need a BigInt. */
function plusOne(counter: string): string {
  const value = Number.parseInt(counter, 16);
  const next = value < Number.MAX_SAFE_INTEGER ? value + 1 : BigInt(`0x${counter}`) + 1n;
  return next.toString(16).padStart(DIGITS, '0');
}

/** A larger PID of the same length or shorter, by adding one to the last byte that can take it; else one byte longer. */
function increment(pid: Pid): Pid | undefined {
  for (let end = pid.length; end > 0; end--) {
    const last = pid.charCodeAt(end - 1);
    if (last < 0xff) return (pid.slice(0, end - 1) + String.fromCharCode(last + 1)) as Pid;
  }
  // All bytes are 0xff: only a longer PID is larger.
  return pid.length < limits.pidBytes ? pidAfter(pid) : undefined;
}
