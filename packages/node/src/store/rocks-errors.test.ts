import { StoreCorruptError, StoreFailedError, StoreFullError, StoreLockedError } from '@taskmaster/engine/ports';
import { expect, test } from 'vitest';
import { errorOf, failureOf } from './rocks-errors.ts';

const coded = (code: string, message: string) => Object.assign(new Error(message), { code });
const hidden = (cause: Error) => Object.assign(new Error('Database is not open', { cause }), { code: 'LEVEL_X' });

test.each([
  [
    'a full disk',
    coded('LEVEL_IO_ERROR', 'IO error: No space left on device: While appending to file: 1.log'),
    StoreFullError,
  ],
  [
    'a full quota',
    coded('LEVEL_IO_ERROR', 'IO error: Disk quota exceeded: While appending to file: 1.log'),
    StoreFullError,
  ],
  ['a full disk of the file system', coded('ENOSPC', 'ENOSPC: no space left on device, write'), StoreFullError],
  [
    'a full disk met by a sync',
    coded('LEVEL_IO_ERROR', 'IO error: No space left on device: While fdatasync: 1.log'),
    StoreFailedError,
  ],
  ['a failed sync', coded('LEVEL_IO_ERROR', 'IO error: Input/output error: While fdatasync: 1.log'), StoreFailedError],
  ['a failed open, its cause inside', hidden(coded('LEVEL_LOCKED', 'IO error: While lock file')), StoreLockedError],
  [
    'a damaged file',
    coded('LEVEL_CORRUPTION', 'Corruption: block checksum mismatch in /d/000010.sst'),
    StoreCorruptError,
  ],
  ['anything else', new Error('out of luck'), StoreFailedError],
  ['a thrown string', 'a string', StoreFailedError],
])('%s is reported by its own class, with the directory and the message of RocksDB', (_what, thrown, expected) => {
  const error = errorOf(failureOf(thrown), '/d');
  expect(error).toBeInstanceOf(expected);
  expect(error.message).toContain('/d');
  const said = thrown instanceof Error ? ((thrown.cause as Error | undefined) ?? thrown).message : thrown;
  expect(error.message).toContain(said);
});

test('the error of a write for which the process had no descriptor has the next step', () => {
  const error = errorOf({ kind: 'failed', message: 'IO error: While open a file: 9.log: Too many open files' }, '/d');
  expect(error).toBeInstanceOf(StoreFailedError);
  expect(error.message).toContain('ulimit -n');
});

test('the error of a write that fails because RocksDB has found damage has the next step', () => {
  const error = errorOf({ kind: 'failed', message: 'Corruption: block checksum mismatch in /d/000010.sst' }, '/d');
  expect(error).toBeInstanceOf(StoreFailedError);
  expect(error.message).toContain('restore the directory from a backup');
});
