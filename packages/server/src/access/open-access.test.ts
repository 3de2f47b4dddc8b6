import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hashOfToken } from '@taskmaster/proto';
import { expect, onTestFinished, test, vi } from 'vitest';
import { AccessFileError, parseAccessFile } from './access-file.ts';
import { openAccess, readAccessState } from './open-access.ts';

const NO_JWT = { keyFile: '', jwksFile: '', issuer: '', audience: '' };
const rulesFor = (token: string): string => `principals:\n  - name: one\n    tokens: ["${hashOfToken(token)}"]\n`;

function fileWith(text: string): string {
  const dir = mkdtempSync(join(tmpdir(), 'access-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const file = join(dir, 'access.yaml');
  writeFileSync(file, text, { mode: 0o600 });
  return file;
}

function silentLog() {
  return { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() };
}

test.each([
  ['not YAML', 'principals: [', /flow/i],
  ['another type', 'principals: 3', /principals/],
  ['an unknown key', 'principals: []\nuser: 1', /user/],
  ['an unknown right', 'principals: [{name: a, rights: [{groups: ["*"], allow: [write]}]}]', /must be one of enqueue/],
  ['a plain token', 'principals: [{name: a, tokens: [secret]}]', /sha256/],
  [
    'a cluster right on groups',
    'principals: [{name: a, rights: [{groups: ["*"], allow: [manage-cluster]}]}]',
    /whole cluster/,
  ],
  ['a right without groups', 'principals: [{name: a, rights: [{allow: [read]}]}]', /needs groups/],
  ['a quota of nothing', 'principals: [{name: a, limits: {}}]', /name a quota/],
  ['a quota of zero', 'principals: [{name: a, limits: {waiters: 0}}]', /waiters/],
  ['an unknown quota', 'principals: []\ngroups: [{groups: [a], limits: {size: 1}}]', /size/],
  ['a quota of no group', 'principals: []\ngroups: [{groups: [], limits: {tasks: 1}}]', /groups/],
  ['one name twice', 'principals: [{name: a}, {name: a}]', /same name/],
  [
    'an alias bomb',
    `a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c]`,
    /alias/i,
  ],
])('a file with %s is refused', (_name, text, problem) => {
  expect(() => parseAccessFile(text)).toThrow(AccessFileError);
  expect(() => parseAccessFile(text)).toThrow(problem);
});

test('the first entry that matches a group has its quotas', () => {
  const table = parseAccessFile(`principals: []
groups:
  - groups: [eu-*, us-*]
    limits: {tasks: 5}
  - groups: ["*"]
    limits: {bytes: 7, queues: 2}`);
  const found = ['us-1', 'other', ''].map((group) => table.limitsOfGroup(group));
  expect(found).toEqual([{ tasks: 5 }, { bytes: 7, queues: 2 }, { bytes: 7, queues: 2 }]);
});

test('a file that every user can read is refused', () => {
  const file = fileWith(rulesFor('tm_one'));
  chmodSync(file, 0o644);
  expect(() => readAccessState({ file, jwt: NO_JWT })).toThrow(/0600/);
});

test('rules of JWTs need an issuer, an audience and a file of rights', () => {
  expect(() => readAccessState({ file: '', jwt: { ...NO_JWT, keyFile: '/nowhere' } })).toThrow(
    /keyFile.*issuer.*audience.*access.file/,
  );
});

test('a changed file is in force soon, and the old rules stay if it is not valid', async () => {
  const file = fileWith(rulesFor('tm_one'));
  const log = silentLog();
  using opened = openAccess({ file, jwt: NO_JWT }, log, 20);
  const caller = await opened.access.identify({ kind: 'bearer', token: 'tm_one' });
  writeFileSync(file, 'principals: 3');
  await vi.waitUntil(() => log.error.mock.calls.length > 0, { timeout: 10_000 });
  expect(caller.principal).toBe('one');
  expect(opened.access.reloadFailed).toBe(true);
  writeFileSync(file, rulesFor('tm_two'));
  await vi.waitUntil(() => caller.principal === '', { timeout: 10_000 });
  expect(opened.access.reloadFailed).toBe(false);
  expect((await opened.access.identify({ kind: 'bearer', token: 'tm_two' })).principal).toBe('one');
});
