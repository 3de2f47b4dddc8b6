import { createHash } from 'node:crypto';
import { limits } from '@taskmaster/proto';
import { ByteReader, ByteWriter, latin1Of, UnreadableBytesError } from './bytes.ts';
import type { Instant, Pid } from './ids.ts';
import type { TaskState } from './task.ts';
import type { TaskEnd } from './task-end.ts';

// How a task has ended, kept as a task in a reserved queue of its group. So it is durable with the change that ended the task,
// and moves with the group.

const VERSION = 1;
const OUTCOMES = ['completed', 'dead-lettered', 'cancelled'] as const;
/** Flags. */
const RESULT = 1;
const ERROR = 2;
const CANCEL_REASON = 4;
/** First byte of a PID with a hash in place of the name. Other PIDs begin with the length of the name, which is less. */
const HASHED = '\xff';

const writer = new ByteWriter();

/** A PID for the record of a task. Different tasks of a group have different ones. */
export function recordPid(name: string, pid: Pid): Pid {
  const bytes = Buffer.from(name, 'utf8');
  const plain = String.fromCharCode(bytes.length >>> 8, bytes.length & 0xff) + bytes.toString('latin1') + pid;
  if (plain.length <= limits.pidBytes) return plain as Pid;
  const hash = createHash('sha256').update(plain, 'latin1').digest('hex');
  return `${HASHED}${hash}` as Pid;
}

/** An end that leaves a record. */
export type RecordedEnd = TaskEnd & { readonly outcome: (typeof OUTCOMES)[number]; readonly at: Instant };

export function encodeEnd({ outcome, at, attempts, result, error, cancelReason }: RecordedEnd): Uint8Array {
  writer.byte(VERSION);
  writer.byte(OUTCOMES.indexOf(outcome));
  writer.number(at);
  writer.number(attempts);
  const texts = (error === undefined ? 0 : ERROR) | (cancelReason === undefined ? 0 : CANCEL_REASON);
  writer.byte((result === undefined ? 0 : RESULT) | texts);
  if (result !== undefined) writer.latin1(latin1Of(result));
  if (error !== undefined) writer.utf8(error);
  if (cancelReason !== undefined) writer.utf8(cancelReason);
  // A copy: the next call reuses the view.
  return new Uint8Array(writer.view());
}

export function decodeEnd(bytes: Uint8Array): TaskEnd {
  const from = new ByteReader(bytes);
  from.version(VERSION, 'record of an end');
  const code = from.byte();
  const outcome = OUTCOMES[code];
  if (outcome === undefined) throw new UnreadableBytesError(`unknown outcome ${code}`);
  const at = from.number() as Instant;
  const attempts = from.number();
  const flags = from.byte();
  // A copy: the bytes may be a view of a larger buffer.
  const result = flags & RESULT ? Buffer.from(from.latin1(), 'latin1') : undefined;
  const error = flags & ERROR ? from.utf8() : undefined;
  const cancelReason = flags & CANCEL_REASON ? from.utf8() : undefined;
  return { outcome, at, attempts, result, error, cancelReason };
}

/** The end of a task, seen from its former queue. `state`: in its dead-letter queue. */
export function deadLetterEnd({ attempts, history }: TaskState, now: Instant): RecordedEnd {
  const last = history?.failures.at(-1);
  const failure = last?.attempt === attempts ? last : undefined;
  const rest = { attempts, result: undefined, error: failure?.error?.message, cancelReason: undefined };
  return { outcome: 'dead-lettered', at: failure?.at ?? now, ...rest };
}
