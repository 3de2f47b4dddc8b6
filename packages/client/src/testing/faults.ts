import { makeError, type TaskMasterError } from '../values/errors.ts';

/**
 * A fault of one attempt of a call. The attempt fails with this error, before or after it is applied, or before it arrives: then
 * it is one of the `stragglers`.
 */
export interface Fault {
  readonly when: 'before' | 'after' | 'late';
  readonly error: TaskMasterError;
}

/** The error of a broken connection: the call may have been applied. */
export function connectionLost(): TaskMasterError {
  return makeError('connection lost', { reason: 'UNAVAILABLE', code: 14, retryable: true, maybeApplied: true });
}

/** A temporary refusal of a node that has changed nothing. */
export function overloaded(retryDelayMs?: number): TaskMasterError {
  return makeError('too much to do', { reason: 'OVERLOADED', retryDelayMs });
}
