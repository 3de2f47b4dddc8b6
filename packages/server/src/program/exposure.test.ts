import { describe, expect, test } from 'vitest';
import type { TlsSettings } from '../tls/tls-files.ts';
import { assertSecure, type ExposureSettings, exposureOf } from './exposure.ts';

const NO_RULES = { file: '', jwt: { keyFile: '', jwksFile: '', issuer: '', audience: '' } };
const RULES = { ...NO_RULES, file: '/etc/access.yaml' };
const NO_TLS: TlsSettings = {
  certFile: '',
  keyFile: '',
  caFile: '',
  peerName: '',
  clientCertificates: 'optional',
  minVersion: '1.3',
};
const TLS: TlsSettings = { ...NO_TLS, certFile: '/etc/tls.crt', keyFile: '/etc/tls.key' };
const KEY = { keyFile: '/etc/key', advertiseHost: '' };

const settings = (change: Partial<ExposureSettings> = {}): ExposureSettings => ({
  host: '127.0.0.1',
  join: [],
  cluster: { keyFile: '', advertiseHost: '' },
  access: NO_RULES,
  tls: NO_TLS,
  insecure: false,
  ...change,
});

describe('what makes a program insecure', () => {
  test.each([
    ['nothing on loopback', {}, []],
    ['nothing in a cluster on loopback', { bootstrap: true, join: ['127.0.0.1:7400', 'localhost:7401'] }, []],
    ['nothing with IPv6 loopback', { host: '::1' }, []],
    ['another address', { host: '0.0.0.0' }, [/plain text/, /every caller/]],
    ['a host name', { host: 'node-1' }, [/plain text/, /every caller/]],
    ['an advertised address', { cluster: { keyFile: '', advertiseHost: 'node-1' } }, [/plain text/, /every caller/]],
    ['TLS without rules', { host: '0.0.0.0', tls: TLS }, [/every caller/]],
    ['rules without TLS', { host: '0.0.0.0', access: RULES }, [/plain text/]],
    ['nothing with TLS and rules', { host: '0.0.0.0', tls: TLS, access: RULES }, []],
    ['nothing with client certificates', { host: '::', tls: { ...TLS, clientCertificates: 'required' } }, []],
    ['no key and members elsewhere', { join: ['10.0.0.1:7400'] }, [/cluster.keyFile/]],
    [
      'no key and a cluster on another address',
      { host: '0.0.0.0', bootstrap: true, tls: TLS, access: RULES },
      [/keyFile/],
    ],
    ['nothing with a key', { join: ['10.0.0.1:7400'], cluster: KEY }, []],
  ] as const)('%s', (_name, change, expected) => {
    const found = exposureOf(settings(change as Partial<ExposureSettings>));
    expect(found).toHaveLength(expected.length);
    for (const [index, problem] of expected.entries()) expect(found[index]).toMatch(problem);
  });
});

test('insecure settings are refused unless that is wanted', () => {
  expect(() => assertSecure(settings({ host: '0.0.0.0' }))).toThrow(/--insecure/);
  expect(() => assertSecure(settings({ host: '0.0.0.0', insecure: true }))).not.toThrow();
  expect(() => assertSecure(settings())).not.toThrow();
});

test('rules in a cluster need a key, also if insecurity is wanted', () => {
  const change = { bootstrap: true, access: RULES, insecure: true };
  expect(() => assertSecure(settings(change))).toThrow(/cluster.keyFile/);
  expect(() => assertSecure(settings({ ...change, cluster: KEY }))).not.toThrow();
});
