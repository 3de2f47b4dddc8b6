import { isUtf8 } from 'node:buffer';
import type { Pid } from '@taskmaster/client';
import { bytesFromText, isMarked, limits } from '@taskmaster/proto';
import { UsageError } from '../views/cli-errors.ts';
import type { Line } from './read-input.ts';

/** The source of the PIDs of lines. */
export type PidSource =
  /** The node assigns PIDs in the order of arrival. */
  | { readonly kind: 'none' }
  /** A field of the JSON object in the line. `a.b` is the field b of the field a. */
  | { readonly kind: 'field'; readonly path: string }
  /** A column of the line, from 1. */
  | { readonly kind: 'column'; readonly column: number; readonly separator: Buffer };

/**
 * The PID of a line, which has it in the text form of PIDs. Undefined: the node assigns the PID. @throws UsageError with the
 * number of the line.
 */
export function pidOfLine({ bytes, number }: Line, source: PidSource): Pid | undefined {
  switch (source.kind) {
    case 'none':
      return undefined;
    case 'field':
      return checked(fieldPid(bytes, number, source.path), number);
    case 'column':
      return checked(columnPid(bytes, number, source.column, source.separator), number);
    default:
      return source satisfies never;
  }
}

/** A field of the JSON object in a line; `a.b` is the field b of the field a. Undefined: there is none. @throws UsageError */
export function fieldOf(bytes: Buffer, line: number, path: string): unknown {
  let value: unknown;
  try {
    // Decoding turns different invalid bytes into the same text, and two PIDs would become one.
    if (!isUtf8(bytes)) throw new TypeError('it is not UTF-8');
    value = JSON.parse(bytes.toString('utf8'));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new UsageError(`line ${line} is not JSON: ${why}`);
  }
  for (const name of path.split('.')) {
    const isObject = typeof value === 'object' && value !== null && Object.hasOwn(value, name);
    value = isObject ? (value as Readonly<Record<string, unknown>>)[name] : undefined;
  }
  return value;
}

function fieldPid(bytes: Buffer, line: number, path: string): Buffer {
  const value = fieldOf(bytes, line, path);
  if (typeof value === 'string') {
    if (!value.isWellFormed())
      throw new UsageError(`line ${line}: '${path}' has a lone surrogate (half of a character)`);
    return Buffer.from(value, 'utf8');
  }
  if (typeof value === 'number') {
    // JSON.parse rounds larger numbers, and two PIDs would become one.
    if (Math.abs(value) <= Number.MAX_SAFE_INTEGER) return Buffer.from(String(value), 'utf8');
    throw new UsageError(`line ${line}: '${path}' is a number too large to be read exactly; write it as a string`);
  }
  const found = value === undefined ? 'is missing' : `is ${JSON.stringify(value)?.slice(0, 40)}`;
  throw new UsageError(`line ${line}: '${path}' ${found}; a PID is a string or a number`);
}

function columnPid(bytes: Buffer, line: number, column: number, separator: Buffer): Buffer {
  let start = 0;
  for (let at = 1; ; at++) {
    const end = bytes.indexOf(separator, start);
    if (at === column) return bytes.subarray(start, end < 0 ? bytes.byteLength : end);
    if (end < 0) throw new UsageError(`line ${line} has ${at} column${at === 1 ? '' : 's'}, not ${column}`);
    start = end + separator.byteLength;
  }
}

function checked(given: Buffer, line: number): Pid {
  const pid = isMarked(given.toString('latin1')) ? unmarked(given, line) : given;
  if (pid.byteLength > 0 && pid.byteLength <= limits.pidBytes) return pid;
  const size = pid.byteLength === 0 ? 'is empty' : `has ${pid.byteLength} bytes`;
  throw new UsageError(`line ${line}: its PID ${size}; a PID has 1 to ${limits.pidBytes} bytes`);
}

function unmarked(text: Buffer, line: number): Buffer {
  try {
    return bytesFromText(text.toString('latin1'));
  } catch (error) {
    throw new UsageError(`line ${line}: its PID ${error instanceof Error ? error.message : String(error)}`);
  }
}
