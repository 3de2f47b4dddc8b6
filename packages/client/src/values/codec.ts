import { isUtf8 } from 'node:buffer';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { InvalidDataError, isTaskMasterError } from './errors.ts';
import { silentChange } from './json-changes.ts';
import { isInstance, messageOf } from './thrown.ts';

/** Encodes and decodes payloads. Its errors become the `cause` of an `InvalidDataError`. */
export interface Codec<T> {
  encode(value: T): Uint8Array;
  /** The bytes are a view into a received message: copy them to keep them for long. */
  decode(bytes: Uint8Array): T;
}

/**
 * JSON in UTF-8, the default. It refuses values that JSON does not have, and those that `JSON.stringify` would change into null
 * or `{}`: NaN, holes of arrays, maps, promises and so on. Properties that are undefined or functions are left out. It refuses
 * bytes that are not UTF-8.
 */
export const jsonCodec: Codec<unknown> = {
  encode(value) {
    if (ArrayBuffer.isView(value)) throw new TypeError('bytes are not JSON: give the queue `codec: bytesCodec`');
    const text = JSON.stringify(value);
    if (text === undefined) throw new TypeError(`${typeof value} is not JSON`);
    const change = silentChange(value, text);
    if (change !== undefined) throw new TypeError(change);
    return Buffer.from(text, 'utf8');
  },
  decode: (bytes) => JSON.parse(utf8(bytes)),
};

/** Text in UTF-8. It refuses lone surrogates (halves of characters), and bytes that are not UTF-8. */
export const textCodec: Codec<string> = {
  encode(text) {
    if (!text.isWellFormed()) throw new TypeError('the text has a lone surrogate (half of a character)');
    return Buffer.from(text, 'utf8');
  },
  decode: utf8,
};

/** Bytes as they are. Received bytes are a view into a message: copy them before you transfer their memory to a thread. */
export const bytesCodec: Codec<Uint8Array> = {
  encode: (bytes) => bytes,
  // A new array, because all empty payloads share one array, and a caller may detach its memory.
  decode: (bytes) => (bytes.byteLength === 0 ? new Uint8Array(0) : bytes),
};

/** Encoding and validation of the data of one queue. */
export interface DataFormat<T, In> {
  readonly codec: Codec<unknown>;
  /** Validates data before it is sent, and validates and transforms received data. */
  readonly schema: StandardSchemaV1<In, T> | undefined;
}

/** Validation of the results of the tasks of one queue. */
export interface ResultFormat<R, RIn> {
  /** Validates results before they are sent, and validates and transforms received results. */
  readonly resultSchema?: StandardSchemaV1<RIn, R> | undefined;
}

/** Decoded data, or the error. */
export type Decoded<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: InvalidDataError };

/**
 * Validates and encodes data. It sends the given value and not the transformed one, because the receiver validates again, and a
 * transformed value might be invalid. Returns a promise only if the schema validates asynchronously.
 * @throws InvalidDataError
 */
export function encodeData<T, In>(format: DataFormat<T, In>, value: In): Uint8Array | Promise<Uint8Array> {
  const { schema } = format;
  if (schema === undefined) return encoded(format.codec, value);
  const checked = check(schema, value, DATA);
  if (!(checked instanceof Promise)) return encoded(format.codec, value);
  return checked.then(() => encoded(format.codec, value));
}

/** What does not fit which schema, for the error. */
const DATA = "the data does not fit the queue's schema";
const RESULT = "the result does not fit the queue's schema of results";

/** What a schema makes of a result. @throws InvalidDataError. Returns a promise only if the schema validates asynchronously. */
export function checkResult<R>(schema: StandardSchemaV1<unknown, R>, result: unknown): R | Promise<R> {
  return check(schema, result, RESULT);
}

/** What a schema makes of a value. @throws InvalidDataError. Returns a promise only if it validates asynchronously. */
function check<T>(schema: StandardSchemaV1<unknown, T>, value: unknown, complaint: string): T | Promise<T> {
  let result: StandardSchemaV1.Result<T> | Promise<StandardSchemaV1.Result<T>>;
  try {
    result = schema['~standard'].validate(value);
  } catch (cause) {
    throw asInvalidData('the schema failed', cause);
  }
  if (!(result instanceof Promise)) return unlessRefused(result, complaint);
  return result.then(
    (settled) => unlessRefused(settled, complaint),
    (cause) => Promise.reject(asInvalidData('the schema failed', cause)),
  );
}

/** Decodes and validates data. Never throws. Returns a promise only if the schema validates asynchronously. */
export function decodeData<T, In>(format: DataFormat<T, In>, bytes: Uint8Array): Decoded<T> | Promise<Decoded<T>> {
  let value: unknown;
  try {
    value = format.codec.decode(bytes);
  } catch (cause) {
    return { ok: false, error: asInvalidData('the payload cannot be decoded', cause) };
  }
  // Without a schema the type is unchecked, as with JSON.parse.
  if (format.schema === undefined) return { ok: true, value: value as T };
  try {
    const result = format.schema['~standard'].validate(value);
    return result instanceof Promise ? result.then(decodedOf, refusedOf<T>) : decodedOf(result);
  } catch (cause) {
    return refusedOf<T>(cause);
  }
}

function encoded(codec: Codec<unknown>, value: unknown): Uint8Array {
  let bytes: Uint8Array;
  try {
    bytes = codec.encode(value);
  } catch (cause) {
    throw asInvalidData('the data cannot be encoded', cause);
  }
  if (!(bytes instanceof Uint8Array))
    throw new InvalidDataError('the codec encoded to something other than a Uint8Array');
  return bytes;
}

function unlessRefused<T>(result: StandardSchemaV1.Result<T>, complaint: string): T {
  if (result.issues !== undefined) throw refusal(result.issues, complaint);
  return result.value;
}

function decodedOf<T>(result: StandardSchemaV1.Result<T>): Decoded<T> {
  if (result.issues !== undefined) return { ok: false, error: refusal(result.issues, DATA) };
  return { ok: true, value: result.value };
}

function refusedOf<T>(cause: unknown): Decoded<T> {
  return { ok: false, error: asInvalidData('the schema failed', cause) };
}

function refusal(found: readonly StandardSchemaV1.Issue[], complaint: string): InvalidDataError {
  const issues = found.map(({ message, path = [] }) => ({
    message,
    path: path.map((segment) => String(typeof segment === 'object' ? segment.key : segment)).join('.'),
  }));
  const shown = issues.map(({ message, path }) => (path === '' ? message : `${path}: ${message}`)).join('; ');
  return new InvalidDataError(`${complaint}: ${shown}`, { issues });
}

function asInvalidData(what: string, cause: unknown): InvalidDataError {
  if (isTaskMasterError(cause) && isInstance(cause, InvalidDataError)) return cause;
  return new InvalidDataError(`${what}: ${messageOf(cause)}`, { cause });
}

/** @throws TypeError. Decoding would turn different bytes into the same text. */
function utf8(bytes: Uint8Array): string {
  if (!isUtf8(bytes)) throw new TypeError('the bytes are not UTF-8');
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
}
