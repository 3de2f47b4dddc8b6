import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { hostsOf } from './hosts.ts';

test.each(['postgres://u:p@ss@h1,h2:7/d', 'postgres://u:p%40ss@h1,h2:7/d'])(
  'each host has the password of %s',
  (url) => {
    expect(
      hostsOf(url).map(({ user, password, host, port, database }) => [user, password, host, port, database]),
    ).toEqual([
      ['u', 'p@ss', 'h1', undefined, 'd'],
      ['u', 'p@ss', 'h2', 7, 'd'],
    ]);
  },
);

test.each([
  'postgres://u:12/secret@h/d',
  'postgres://u:se/secret@h/d',
  'postgres://u:secret@h:x/d',
  'postgres://u:%zzsecret@h:x/d',
  'postgres://u:1#secret@h/d',
  'secret',
])('the error for %s has no password', (url) => {
  let found: unknown;
  try {
    hostsOf(url);
  } catch (error) {
    found = error;
  }
  expect(found).toBeInstanceOf(Error);
  expect(inspect(found, { depth: 9, showHidden: true })).not.toContain('secret');
});

test.each(['prefer', 'allow', 'no-verify', 'Verify-Full', ''])('refuse sslmode=%s', (mode) => {
  expect(() => hostsOf(`postgres://db/queues?sslmode=${mode}`)).toThrow(
    `sslmode=${mode} in the URL of the store: expected one of disable, require, verify-ca, verify-full`,
  );
});

test('refuse verify-ca without the certificate of the authority', () => {
  expect(() => hostsOf('postgres://db/queues?sslmode=verify-ca')).toThrow('requires specifying a CA with sslrootcert');
});
