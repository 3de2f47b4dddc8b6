import {
  StoreClosedError,
  StoreCorruptError,
  StoreFailedError,
  StoreFullError,
  StoreLockedError,
} from '@taskmaster/engine/ports';

/** The kind of a failure. Threads send it instead of an error, because error classes do not cross threads. */
type FailureKind = 'full' | 'corrupt' | 'locked' | 'failed' | 'closed';

export interface Failure {
  readonly kind: FailureKind;
  readonly message: string;
}

interface CodedError {
  readonly code?: unknown;
  readonly message?: unknown;
  readonly cause?: unknown;
}

/** The binding hides the error of an open in `cause`. */
function innermost(thrown: unknown): { code: string; message: string } {
  const { code, message, cause } = (thrown ?? {}) as CodedError;
  if (cause !== undefined && cause !== null) return innermost(cause);
  return { code: String(code ?? ''), message: String(message ?? thrown) };
}

/** A full disk during a sync does not count: it is a failed sync, after which it is not known what is on disk. */
const isOutOfSpace = (message: string): boolean =>
  /no space left on device|disk quota exceeded/i.test(message) && !/While (fdatasync|fsync|sync)/i.test(message);

/** The failure behind an error thrown by RocksDB or the file system. */
export function failureOf(thrown: unknown): Failure {
  const { code, message } = innermost(thrown);
  if (code === 'LEVEL_LOCKED') return { kind: 'locked', message };
  if (code === 'LEVEL_CORRUPTION') return { kind: 'corrupt', message };
  if (isOutOfSpace(message)) return { kind: 'full', message };
  return { kind: 'failed', message };
}

/** Whether the process has too many open files. A file that was to be opened is not damaged, and may be opened later. */
export const lacksDescriptors = (message: string): boolean => /too many open files/i.test(message);

const damageAdvice = 'Nothing of the damaged part was used. Check the disk, then restore the directory from a backup';

function adviceFor(message: string): string {
  // RocksDB refuses all writes after it has found damage during a compaction.
  if (message.startsWith('Corruption')) return `. ${damageAdvice}`;
  return lacksDescriptors(message)
    ? '. The disk is not at fault: allow the process more open files (ulimit -n) and restart it'
    : '';
}

/** The error to reject with. `dir` is the database's directory. */
export function errorOf(failure: Failure, dir: string): Error {
  switch (failure.kind) {
    case 'full':
      return new StoreFullError(`no space is left for ${dir} (${failure.message})`);
    case 'corrupt':
      return new StoreCorruptError(`the database in ${dir} is damaged: ${failure.message}. ${damageAdvice}`);
    case 'locked':
      return new StoreLockedError(
        `${dir} is in use by another process, or by another store of this one (${failure.message}). ` +
          'Stop it, or give this node another directory',
      );
    case 'closed':
      return new StoreClosedError(failure.message);
    case 'failed': {
      return new StoreFailedError(`the database in ${dir} failed: ${failure.message}${adviceFor(failure.message)}`);
    }
    default:
      return failure.kind satisfies never;
  }
}
