import { chmod, writeFile } from 'node:fs/promises';
import { keptLog } from '@taskmaster/engine/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type CertificateFiles, certificateFiles, TestAuthority } from '../testing/tls/certificates.ts';
import { Tls } from './tls.ts';
import { readTlsFiles, TlsFileError, type TlsSettings } from './tls-files.ts';

let authority: TestAuthority;
let files: CertificateFiles;
beforeEach(async () => {
  authority = await TestAuthority.create();
  files = await certificateFiles(await authority.sign({ name: 'node' }), authority.pem);
});
afterEach(() => files[Symbol.asyncDispose]());

const settings = (change: Partial<TlsSettings> = {}): TlsSettings => ({
  certFile: files.certFile,
  keyFile: files.keyFile,
  caFile: files.caFile,
  clientCertificates: 'optional',
  minVersion: '1.3',
  peerName: '',
  ...change,
});

const problems = (change: Partial<TlsSettings> = {}): readonly string[] => {
  try {
    readTlsFiles(settings(change), Date.now());
    return [];
  } catch (error) {
    if (error instanceof TlsFileError) return error.problems;
    throw error;
  }
};

test('files that fit are accepted', () => {
  expect(problems()).toEqual([]);
  expect(problems({ caFile: '' })).toEqual([]);
});

test.each<[string, Partial<TlsSettings> | (() => Promise<void>), string]>([
  ['no key', { keyFile: '' }, 'tls.keyFile: is needed beside tls.certFile'],
  ['no certificate', { certFile: '' }, 'tls.certFile: is needed beside tls.keyFile'],
  ['a missing file', { certFile: '/nowhere/tls.crt' }, 'tls.certFile: ENOENT'],
  ['no CA for required certificates', { caFile: '', clientCertificates: 'required' }, 'tls.caFile: is needed'],
  ['a name of members without a CA', { caFile: '', peerName: 'members' }, 'tls.peerName: needs tls.caFile'],
  [
    'a name of members that show no certificates',
    { clientCertificates: 'none', peerName: 'members' },
    'tls.peerName: needs tls.caFile',
  ],
  ['a certificate that is none', () => files.write({ cert: 'nothing' }), 'is not valid PEM'],
  ['a key that is none', () => files.write({ key: 'nothing' }), 'is not valid PEM'],
  ['a CA that is none', () => writeFile(files.caFile, 'nothing'), 'tls.caFile'],
  ['a key that everyone can read', () => chmod(files.keyFile, 0o644), 'change its mode to 0600'],
  [
    'an expired certificate',
    async () => files.write(await authority.sign({ name: 'node', validMs: -1_000 })),
    'has expired at',
  ],
  [
    'a key of another certificate',
    async () => files.write({ key: (await authority.sign({ name: 'other' })).key }),
    'does not belong to the certificate',
  ],
])('%s is refused with the name of the setting and the file', async (_, change, message) => {
  if (typeof change === 'function') await change();
  const found = problems(typeof change === 'function' ? {} : change);
  expect(found.join('; ')).toContain(message);
  expect(found.join('; ')).toMatch(/^tls\.(certFile|keyFile|caFile|peerName): /);
});

test('changed files are taken over, and bad ones are not', async () => {
  const log = keptLog();
  using tls = new Tls(settings(), log, 5);
  const before = tls.material.cert;
  let told = 0;
  tls.onChange(() => told++);
  await files.write({ cert: 'nothing' });
  await expect.poll(() => log.lines.at(-1)?.level).toBe('error');
  expect(tls.material.cert).toBe(before);
  expect(tls.reloadFailed).toBe(true);
  const next = await authority.sign({ name: 'node' });
  await files.write({ cert: next.cert });
  await files.write({ key: next.key });
  await expect.poll(() => tls.material.cert).toBe(next.cert);
  expect([tls.reloads, told, tls.reloadFailed]).toEqual([1, 1, false]);
});
