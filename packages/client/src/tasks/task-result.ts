import { type Codec, jsonCodec } from '../values/codec.ts';
import { type Duration, durationMs } from '../values/duration.ts';
import { InvalidDataError, isTaskMasterError } from '../values/errors.ts';
import type { OptionNames } from '../values/known-options.ts';
import { isInstance, messageOf } from '../values/thrown.ts';

/** What a completed task leaves for `queue.waitFor`. */
export interface ResultOptions {
  /**
   * The result, at most 64 KiB when it is encoded. `undefined` is a result, too, if the property is given. Default: the task
   * leaves none.
   */
  readonly result?: unknown;
  /** How long the node keeps the result, up to 30 days. Default 1 h. */
  readonly resultRetention?: Duration | undefined;
  /** Default: JSON. */
  readonly resultCodec?: Codec<unknown> | undefined;
}

/** Internal: key of the schema of the results of a task. */
export const RESULTS = Symbol('taskmaster.results');

export const resultNames: OptionNames<ResultOptions> = { result: true, resultRetention: true, resultCodec: true };

/** The fields of a dequeue. */
interface DequeueResult {
  readonly result?: Uint8Array | undefined;
  readonly resultRetentionMs?: number | undefined;
}

/** `undefined` as a result. */
const NO_BYTES = new Uint8Array(0);

/** @throws InvalidDataError if the codec cannot encode the result; TypeError for a wrong retention. */
export function wireResult(options: ResultOptions): DequeueResult {
  if (!('result' in options)) return {};
  const { result, resultRetention, resultCodec = jsonCodec } = options;
  const resultRetentionMs = resultRetention === undefined ? undefined : durationMs(resultRetention, 'resultRetention');
  return { result: encodeResult(result, resultCodec, 'the result cannot be encoded'), resultRetentionMs };
}

/** @throws InvalidDataError */
export function encodeResult(result: unknown, codec: Codec<unknown>, complaint: string): Uint8Array {
  if (result === undefined) return NO_BYTES;
  try {
    return codec.encode(result);
  } catch (cause) {
    throw problem(complaint, cause);
  }
}

/** @throws InvalidDataError */
export function readResult<R>(bytes: Uint8Array | undefined, codec: Codec<R>): R | undefined {
  if (bytes === undefined || bytes.byteLength === 0) return undefined;
  try {
    return codec.decode(bytes);
  } catch (cause) {
    throw problem('the result cannot be decoded', cause);
  }
}

function problem(what: string, cause: unknown): InvalidDataError {
  if (isTaskMasterError(cause) && isInstance(cause, InvalidDataError)) return cause;
  return new InvalidDataError(`${what}: ${messageOf(cause)}`, { cause });
}
