/**
 * Thrown by a handler, or by what it calls, when a retry cannot help. The task then goes to its dead-letter queue at once,
 * whatever its retry policy says.
 */
export class UnrecoverableError extends Error {
  override readonly name = 'UnrecoverableError';
}
