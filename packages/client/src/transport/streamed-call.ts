import { status } from '@grpc/grpc-js';
import type { LeaseTasksRequest, LeaseTasksResponse, UpdateTasksRequest, UpdateTasksResponse } from '@taskmaster/proto';
import { CancelledError, makeError, type TaskMasterError, withMaybeApplied } from '../values/errors.ts';

interface StreamedCallCommon {
  /** 0: not sent yet. */
  id: number;
  readonly sizeBound: number;
  /** Whether the call counts for `maxCallsInFlight`. */
  readonly counted: boolean;
  readonly reject: (error: TaskMasterError) => void;
  dueSlot: number;
  settled: boolean;
  /** The error of a cancelled lease, if no tasks were leased to it. */
  givenUp: TaskMasterError | undefined;
  readonly signal: AbortSignal | undefined;
  onAbort: (() => void) | undefined;
}

/** An update or a lease over a stream. */
export type StreamedCall =
  | (StreamedCallCommon & {
      readonly $case: 'update';
      readonly value: UpdateTasksRequest;
      readonly resolve: (reply: UpdateTasksResponse) => void;
    })
  | (StreamedCallCommon & {
      readonly $case: 'lease';
      readonly value: LeaseTasksRequest;
      readonly resolve: (reply: LeaseTasksResponse) => void;
    });

/** Status codes of connections that broke by accident. */
const accidentalCodes: ReadonlySet<number> = new Set([
  status.CANCELLED,
  status.UNKNOWN,
  status.INTERNAL,
  status.ABORTED,
]);

export function newCall(
  sizeBound: number,
  counted: boolean,
  signal: AbortSignal | undefined,
  reject: (error: TaskMasterError) => void,
): StreamedCallCommon {
  return {
    id: 0,
    sizeBound,
    counted,
    reject,
    dueSlot: 0,
    settled: false,
    givenUp: undefined,
    signal,
    onAbort: undefined,
  };
}

export function closedError(call: StreamedCall): CancelledError {
  return new CancelledError('the client is closed', { reason: 'CANCELLED', maybeApplied: call.id !== 0 });
}

/** The error of the calls of a broken stream. They may be repeated if the stream broke by accident. */
export function streamLoss(error: TaskMasterError): TaskMasterError {
  const accidental = !error.retryable && accidentalCodes.has(error.code);
  return makeError(`the stream broke: ${error.message}`, {
    reason: accidental ? 'UNAVAILABLE' : error.reason,
    code: accidental ? status.UNAVAILABLE : error.code,
    metadata: error.metadata,
    retryDelayMs: error.retryDelayMs,
    retryable: accidental || error.retryable,
    // The end of a stream does not say whether a sent call was applied.
    maybeApplied: true,
    cause: error,
  });
}

/** The error of an unsent call of a broken stream. */
export function unsentLoss(loss: TaskMasterError): TaskMasterError {
  return withMaybeApplied(loss, false);
}
