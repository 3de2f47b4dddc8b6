import { DatabaseError, type DatabaseErrorKind } from './database.ts';

/**
 * SQLSTATEs, or their classes, after which the session is given up: the server shuts down, takes no writes, or the connection
 * failed. What a statement did is then read from the row of the node.
 */
const LOST = ['08', '57P', '25006', '53300', '57014'];
/** The statement was rolled back because of others, or because memory was short. */
const AGAIN = ['40', '53200', '55P03'];
/** No space for a table, or a quota of the disk. */
const FULL = ['53100', '53400'];

/** A statement that the session has prepared is not there, or one that it has not: it is another session. */
const OTHER_SESSION: readonly unknown[] = ['26000', '42P05'];
const SHARED_HINT =
  'the connection is not a session of this node alone. Connect to the server itself, or let the pooler give each client a session ' +
  '(PgBouncer: pool_mode = session)';

/** An error of the driver. Errors without a SQLSTATE are of the connection. */
export function databaseErrorOf(error: unknown): DatabaseError {
  if (error instanceof DatabaseError) return error;
  const { message, code } = error as Error & { readonly code?: unknown };
  return new DatabaseError(kindOf(code), OTHER_SESSION.includes(code) ? `${message}: ${SHARED_HINT}` : message, {
    cause: error,
  });
}

/** `ECONNRESET` and the like are no SQLSTATE. */
export const isSqlState = (code: unknown): code is string => typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code);

function kindOf(code: unknown): DatabaseErrorKind {
  if (!isSqlState(code)) return 'lost';
  const is = (classes: readonly string[]): boolean => classes.some((each) => code.startsWith(each));
  if (is(LOST)) return 'lost';
  if (is(AGAIN)) return 'again';
  return is(FULL) ? 'full' : 'failed';
}
