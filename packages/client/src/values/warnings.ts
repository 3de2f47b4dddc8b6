import { errorPartsOf } from './thrown.ts';

/** What the client warns of. `process.on('warning', ({ code }) => …)` tells them apart. */
export type WarningCode =
  | 'TASKMASTER_HANDLER_TOO_LONG'
  | 'TASKMASTER_HOLDER_IN_PLAIN_TEXT'
  | 'TASKMASTER_HOOK_FAILED'
  | 'TASKMASTER_NO_RENEWAL_THREAD'
  | 'TASKMASTER_WORKER_ENDED';

/**
 * Warns the developer or operator of this process. Node.js writes warnings to stderr, unless told otherwise.
 * @param cause its stack is shown, too.
 */
export function warn(code: WarningCode, message: string, cause?: unknown): void {
  const detail = errorPartsOf(cause)?.stack;
  process.emitWarning(message, { type: 'TaskMasterWarning', code, ...(detail === undefined ? {} : { detail }) });
}
