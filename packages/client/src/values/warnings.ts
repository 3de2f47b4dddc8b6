/** What the client warns of. `process.on('warning', ({ code }) => …)` tells them apart. */
export type WarningCode = 'TASKMASTER_NO_RENEWAL_THREAD' | 'TASKMASTER_HOLDER_IN_PLAIN_TEXT';

/** Warns the developer or operator of this process. Node.js writes warnings to stderr, unless told otherwise. */
export function warn(code: WarningCode, message: string): void {
  process.emitWarning(message, { type: 'TaskMasterWarning', code });
}
