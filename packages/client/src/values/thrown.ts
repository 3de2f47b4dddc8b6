import { inspect, types } from 'node:util';

/** What is read of a thrown error. Other properties may hold secrets, such as the headers of a request. */
export interface ErrorParts {
  readonly name: string;
  readonly message: string;
  /** Undefined: it has none. */
  readonly stack: string | undefined;
  /** What it names as its causes: `cause`, the errors of an AggregateError, and those of a SuppressedError. */
  readonly causes: readonly unknown[];
}

/** Longest text that is read of a thrown value, in characters. What a task keeps is shorter. */
const MOST_CHARACTERS = 10_000;
/** Causes of one error that are read. */
const MOST_CAUSES = 8;

/**
 * The parts of an error, also of one of another realm (as in jest), and of what looks like one. Undefined: it is something else.
 * Never throws: a program may throw a revoked proxy, or an error whose properties throw.
 */
export function errorPartsOf(thrown: unknown): ErrorParts | undefined {
  if (typeof thrown !== 'object' || thrown === null) return undefined;
  const [name, message, stack] = ['name', 'message', 'stack'].map((property) => textIn(thrown, property));
  const isError = types.isNativeError(thrown) || isInstance(thrown, Error);
  const looksLikeOne = message !== undefined && (name !== undefined || stack !== undefined);
  if (!isError && !looksLikeOne) return undefined;
  return { name: name || 'Error', message: message ?? '', stack: stack || undefined, causes: causesOf(thrown) };
}

/** The message of a thrown error, or any text for another value. Never throws. */
export function messageOf(thrown: unknown): string {
  return errorPartsOf(thrown)?.message ?? textOfValue(thrown);
}

/** Name and message of a thrown error, or any text for another value. Never throws. */
export function textOf(thrown: unknown): string {
  const parts = errorPartsOf(thrown);
  if (parts === undefined) return textOfValue(thrown);
  // Node.js reports connections that several addresses refuse by an AggregateError without a message.
  const message = parts.message === '' ? parts.causes.map(messageOf).join('; ') : parts.message;
  return `${parts.name}: ${message}`.slice(0, MOST_CHARACTERS);
}

/** As `instanceof`. False for a value whose prototype cannot be read. */
export function isInstance<T>(value: unknown, of: abstract new (...args: never) => T): value is T {
  try {
    return value instanceof of;
  } catch {
    return false;
  }
}

function textOfValue(value: unknown): string {
  if (typeof value === 'string') return value.slice(0, MOST_CHARACTERS);
  const limits = { maxArrayLength: 20, maxStringLength: 1_000, depth: 2 };
  for (const customInspect of [true, false]) {
    try {
      return inspect(value, { ...limits, customInspect }).slice(0, MOST_CHARACTERS);
    } catch {
      // Its own form throws, or one of its properties.
    }
  }
  return 'a value that cannot be shown';
}

function causesOf(error: object): readonly unknown[] {
  const errors = propertyOf(error, 'errors');
  const causes = [propertyOf(error, 'cause')];
  if (isList(errors)) for (let at = 0; at < MOST_CAUSES; at++) causes.push(propertyOf(errors, String(at)));
  if (textIn(error, 'name') === 'SuppressedError') {
    causes.push(propertyOf(error, 'error'), propertyOf(error, 'suppressed'));
  }
  return causes.filter((cause) => cause !== undefined).slice(0, MOST_CAUSES);
}

function isList(value: unknown): value is object {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}

/** Undefined also if the property cannot be read. */
function propertyOf(value: object, name: string): unknown {
  try {
    return (value as Readonly<Record<string, unknown>>)[name];
  } catch {
    return undefined;
  }
}

function textIn(value: object, name: string): string | undefined {
  const found = propertyOf(value, name);
  return typeof found === 'string' ? found.slice(0, MOST_CHARACTERS) : undefined;
}
