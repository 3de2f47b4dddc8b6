import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readPlainFile, readPrivateFile } from './private-file.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'private-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

test('a file of one user is read, also behind the symbolic links of Kubernetes', () => {
  writeFileSync(join(dir, 'key'), 'secret', { mode: 0o600 });
  symlinkSync(join(dir, 'key'), join(dir, 'link'));
  expect(readPrivateFile(join(dir, 'link'))).toBe('secret');
});

test('a file that every user can read is no secret', () => {
  writeFileSync(join(dir, 'key'), 'secret');
  chmodSync(join(dir, 'key'), 0o644);
  expect(() => readPrivateFile(join(dir, 'key'))).toThrow('change its mode to 0600');
  expect(readPlainFile(join(dir, 'key'))).toBe('secret');
});

test('a pipe, a device and a directory are refused at once', () => {
  execFileSync('mkfifo', [join(dir, 'pipe')]);
  for (const path of [join(dir, 'pipe'), '/dev/zero', dir]) {
    for (const read of [readPrivateFile, readPlainFile]) expect(() => read(path)).toThrow('is not a regular file');
  }
});
