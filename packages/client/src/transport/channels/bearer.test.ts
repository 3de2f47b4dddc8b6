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
  expect(bearerOf(options, LOCAL, false, env)?.headerFor(LOCAL[0] ?? '')).toBe(expected);
});

test('a file is read again when it is replaced', () => {
  const dir = mkdtempSync(join(tmpdir(), 'token-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const tokenFile = join(dir, 'token');
  writeFileSync(tokenFile, 'tm_first\n');
  const bearer = bearerOf({ tokenFile }, LOCAL, false, {});
  expect(bearer?.headerFor(LOCAL[0] ?? '')).toBe('Bearer tm_first');
  writeFileSync(join(dir, 'next'), 'tm_second\n');
  renameSync(join(dir, 'next'), tokenFile);
  expect(bearer?.headerFor(LOCAL[0] ?? '')).toBe('Bearer tm_second');
});

test('a token goes to another machine in plain text only if that is wanted', () => {
  expect(() => bearerOf({ token: 'tm_a' }, REMOTE, false, {})).toThrow(/node-1:7400 in plain text/);
  expect(bearerOf({ token: 'tm_a', insecure: true }, REMOTE, false, {})?.headerFor('node-1:7400')).toBe('Bearer tm_a');
  expect(bearerOf({ token: 'tm_a' }, REMOTE, true, {})?.headerFor('node-1:7400')).toBe('Bearer tm_a');
});

test('a token that is not valid is refused without being shown', () => {
  const bearer = bearerOf({ token: 'secret\r\nx: y' }, LOCAL, false, {});
  expect(() => bearer?.headerFor('localhost:7400')).toThrow(/^token: must be letters/);
});

test.each([
  ['127.0.0.1:7400', true],
  ['127.8.9.10:7400', true],
  ['LOCALHOST:7400', true],
  ['[::1]:7400', true],
  // gRPC takes it for an address of another machine, without a port.
  ['::1:7400', false],
  ['0.0.0.0:7400', false],
  ['127.0.0.999:7400', false],
  ['127.0.0.1.example.com:7400', false],
  ['localhost', false],
  ['localhost:7400,example.com:7400', false],
  ['dns:///localhost:7400', false],
  ['unix:/tmp/127.0.0.1:7400', false],
  ['', false],
])('it may go to %s in plain text: %s', (endpoint, mayGo) => {
  const bearer = bearerOf({ token: 'tm_a' }, LOCAL, false, {});
  expect(bearer?.mayGoTo(endpoint)).toBe(mayGo);
  const header = () => bearer?.headerFor(endpoint);
  if (mayGo) expect(header()).toBe('Bearer tm_a');
  else expect(header).toThrow(/plain text/);
});
