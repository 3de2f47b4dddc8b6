import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findCommand, findIn, NotInstalledError, versionOf } from './commands.ts';

test('a command is found in the first directory that has an executable file of its name', async () => {
  const dirs = await Promise.all([1, 2, 3].map(() => mkdtemp(join(tmpdir(), 'taskmaster-bench-test-'))));
  const [empty = '', notExecutable = '', right = ''] = dirs;
  await writeFile(join(notExecutable, 'server'), '');
  await writeFile(join(right, 'server'), '#!/bin/sh\necho "Server v=1.2.3 bits=64"\n');
  await chmod(join(right, 'server'), 0o755);
  const found = findIn([empty, notExecutable, right], 'server');
  expect(found).toBe(join(right, 'server'));
  expect(versionOf(found ?? '', [], /v=([\d.]+)/)).toBe('1.2.3');
  await Promise.all(dirs.map((dir) => rm(dir, { recursive: true })));
});

test('the error for a missing command says how to install it', () => {
  expect(() => findCommand('no-such-server', 'apt-get install it')).toThrow(NotInstalledError);
  try {
    findCommand('no-such-server', 'apt-get install it');
  } catch (error) {
    expect(error).toMatchObject({ message: 'no-such-server is not installed', install: 'apt-get install it' });
  }
});
