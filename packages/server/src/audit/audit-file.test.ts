import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { AuditFile } from './audit-file.ts';

let dir: string;
let path: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'audit-'));
  path = join(dir, 'audit.log');
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const modeOf = (file: string): number => statSync(file).mode & 0o777;

test('lines are appended to a file that only its user can read', () => {
  writeFileSync(path, 'earlier\n');
  chmodSync(path, 0o644);
  const file = new AuditFile(path);
  file.append('one');
  file.append('two');
  file.close();
  expect(readFileSync(path, 'utf8')).toBe('earlier\none\ntwo\n');
  expect(modeOf(path)).toBe(0o600);
});

test('a file that was moved or deleted is followed by a new one, within a second', () => {
  let now = 0;
  const file = new AuditFile(path, () => now);
  file.append('one');
  renameSync(path, `${path}.1`);
  file.append('two');
  now += 1_000;
  file.append('three');
  rmSync(path);
  now += 1_000;
  file.append('four');
  file.close();
  expect(readFileSync(`${path}.1`, 'utf8')).toBe('one\ntwo\n');
  expect(readFileSync(path, 'utf8')).toBe('four\n');
  expect(modeOf(path)).toBe(0o600);
});

test('a directory that is not there is an error, at the start and later', () => {
  expect(() => new AuditFile(join(dir, 'no', 'audit.log'))).toThrow('ENOENT');
  let now = 0;
  const file = new AuditFile(path, () => now);
  rmSync(dir, { recursive: true });
  now += 1_000;
  expect(() => file.append('one')).toThrow('ENOENT');
});

test('a symbolic link is not followed, at the start and later: neither the lines nor the mode reach its target', () => {
  const target = join(dir, 'target');
  writeFileSync(target, 'private\n');
  chmodSync(target, 0o644);
  symlinkSync(target, path);
  expect(() => new AuditFile(path)).toThrow('ELOOP');
  rmSync(path);
  let now = 0;
  const file = new AuditFile(path, () => now);
  file.append('one');
  rmSync(path);
  symlinkSync(target, path);
  now += 1_000;
  expect(() => file.append('two')).toThrow('ELOOP');
  expect(readFileSync(target, 'utf8')).toBe('private\n');
  expect(modeOf(target)).toBe(0o644);
});

test('a pipe and a device are refused, and neither stops the program', () => {
  execFileSync('mkfifo', [path]);
  expect(() => new AuditFile(path)).toThrow('ENXIO');
  expect(() => new AuditFile('/dev/null')).toThrow('is not a regular file');
});
