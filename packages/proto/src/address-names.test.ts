import type { PeerCertificate } from 'node:tls';
import { expect, test } from 'vitest';
import { addressName, checkAddressOrName } from './address-names.ts';

const certificate = (subjectaltname: string): PeerCertificate =>
  ({ subject: { CN: 'x' }, subjectaltname }) as unknown as PeerCertificate;

test.each([
  ['10.1.2.3:7400', '10.1.2.3', 'ip4-10-1-2-3.invalid'],
  ['[fd00::1:2]:7400', 'FD00:0:0:0:0:0:1:2', 'ip6-fd00--1-2.invalid'],
  ['[::1]:7400', '0:0:0:0:0:0:0:1', 'ip6---1.invalid'],
  ['ipv4:10.1.2.3:7400', '10.1.2.3', 'ip4-10-1-2-3.invalid'],
])('%s is named, and its certificate is checked for the address', (endpoint, address, name) => {
  expect(addressName(endpoint)).toBe(name);
  expect(checkAddressOrName(name, certificate(`IP Address:${address}`))).toBeUndefined();
  expect(checkAddressOrName(name, certificate('IP Address:10.9.9.9'))?.message).toContain('not in the cert');
  // A certificate for the made-up name proves nothing.
  expect(checkAddressOrName(name, certificate(`DNS:${name}`))).toBeInstanceOf(Error);
});

test.each(['queue.example:7400', 'localhost:7400', 'dns:///queue.example:7400', 'unix:/run/x', '10.1.2.3', ''])(
  '%j has no address that needs a name',
  (endpoint) => expect(addressName(endpoint)).toBeUndefined(),
);

test('names are checked as they are', () => {
  expect(checkAddressOrName('queue.example', certificate('DNS:queue.example'))).toBeUndefined();
  expect(checkAddressOrName('queue.example', certificate('DNS:other.example'))).toBeInstanceOf(Error);
});
