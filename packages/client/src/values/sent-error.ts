import { errorPartsOf, textOf } from './thrown.ts';

/** An error on its way to or from another thread. Errors lose their class, their name and their properties there. */
export interface SentError {
  readonly name: string;
  readonly message: string;
  readonly stack: string | undefined;
  readonly cause: SentError | undefined;
  /** Properties of errors of the client, which say why a signal was aborted. */
  readonly details: Readonly<Record<string, string | number>>;
}

/** Causes that are sent. They may form a circle. */
const MOST_CAUSES = 8;
const DETAILS = ['reason', 'cancelReason', 'code'] as const;

/** Never throws, whatever was thrown. */
export function sendError(thrown: unknown, left = MOST_CAUSES): SentError {
  const parts = errorPartsOf(thrown);
  if (parts === undefined) {
    return { name: 'Error', message: textOf(thrown), stack: undefined, cause: undefined, details: {} };
  }
  const [first] = parts.causes;
  const cause = first === undefined || left === 0 ? undefined : sendError(first, left - 1);
  return { name: parts.name, message: parts.message, stack: parts.stack, cause, details: detailsOf(thrown) };
}

/** An error with the name, the stack and the details of the other thread. `make` gives it its class. */
export function receiveError(sent: SentError, make = (message: string) => new Error(message)): Error {
  const error = make(sent.message);
  const cause = sent.cause === undefined ? undefined : receiveError(sent.cause);
  const own = { name: sent.name, stack: sent.stack ?? error.stack, ...(cause === undefined ? {} : { cause }) };
  for (const [name, value] of Object.entries({ ...own, ...sent.details })) {
    Object.defineProperty(error, name, { value, configurable: true, writable: true, enumerable: name in sent.details });
  }
  return error;
}

function detailsOf(thrown: unknown): SentError['details'] {
  const details: Record<string, string | number> = {};
  for (const name of DETAILS) {
    try {
      const value: unknown = (thrown as Readonly<Record<string, unknown>>)[name];
      if (typeof value === 'string' || typeof value === 'number') details[name] = value;
    } catch {
      // A property that cannot be read is not sent.
    }
  }
  return details;
}
