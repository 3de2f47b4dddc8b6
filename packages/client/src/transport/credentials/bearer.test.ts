import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { bearerOf } from './bearer.ts';

const LOCAL = ['127.0.0.1:7400', 'localhost:7400', '[::1]:7400'];
const REMOTE = ['127.0.0.1:7400', 'node-1:7400'];

test.each([
  ['nothing', {}, {}, undefined],
  ['a token', { token: 'tm_a' }, {}, 'Bearer tm_a'],
  ['a function', { token: () => 'tm_b' }, {}, 'Bearer tm_b'],
  ['the environment', {}, { TASKMASTER_TOKEN: 'tm_c' }, 'Bearer tm_c'],
  ['an option before the environment', { token: 'tm_a' }, { TASKMASTER_TOKEN_FILE: '/nowhere' }, 'Bearer tm_a'],
])('the credential comes from %s', (_name, options, env, expected) => {
  expect(bearerOf(options, LOCAL, false, env)?.()).toBe(expected);
});

test('a file is read again when it is replaced', () => {
  const dir = mkdtempSync(join(tmpdir(), 'token-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const tokenFile = join(dir, 'token');
  writeFileSync(tokenFile, 'tm_first\n');
  const bearer = bearerOf({ tokenFile }, LOCAL, false, {});
  expect(bearer?.()).toBe('Bearer tm_first');
  writeFileSync(join(dir, 'next'), 'tm_second\n');
  renameSync(join(dir, 'next'), tokenFile);
  expect(bearer?.()).toBe('Bearer tm_second');
});

test('a token goes to another machine in plain text only if that is wanted', () => {
  expect(() => bearerOf({ token: 'tm_a' }, REMOTE, false, {})).toThrow(/node-1:7400 in plain text/);
  expect(bearerOf({ token: 'tm_a', insecure: true }, REMOTE, false, {})?.()).toBe('Bearer tm_a');
  expect(bearerOf({ token: 'tm_a' }, REMOTE, true, {})?.()).toBe('Bearer tm_a');
});

test('a token that is not valid is refused without being shown', () => {
  const bearer = bearerOf({ token: 'secret\r\nx: y' }, LOCAL, false, {});
  expect(bearer).toThrow(/^token: must be letters/);
});
