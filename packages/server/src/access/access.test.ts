import { generateKeyPairSync } from 'node:crypto';
import { hashOfToken, newToken, type Right, rights } from '@taskmaster/proto';
import { exportJWK, SignJWT } from 'jose';
import { describe, expect, test } from 'vitest';
import { Access } from './access.ts';
import { AccessTable } from './access-table.ts';
import { credentialOf } from './credential.ts';
import { type JwtKeys, readKeySet, readPublicKey } from './jwt-keys.ts';
import { Principal } from './principal.ts';

const NOW = Date.UTC(2030, 0, 1);
const { publicKey, privateKey } = generateKeyPairSync('ed25519');
const other = generateKeyPairSync('ed25519');
const pem = publicKey.export({ type: 'spki', format: 'pem' }) as string;
const rules = { issuer: 'https://id.example', audience: 'taskmaster' };

const table = (tokens: string[] = []) =>
  new AccessTable({
    principals: [
      {
        name: 'billing',
        tokens: tokens.map(hashOfToken),
        certificates: ['billing.example'],
        jwtSubjects: ['billing'],
        rights: [
          { groups: ['billing-*', ''], allow: ['enqueue', 'lease'] },
          { groups: ['*'], allow: ['read'] },
          { allow: ['manage-cluster'] },
        ],
      },
    ],
  });

interface Claims {
  readonly iss?: string;
  readonly aud?: string;
  readonly sub?: string;
  readonly exp?: number;
}

async function jwt(claims: Claims = {}, key = privateKey): Promise<string> {
  const all = { iss: rules.issuer, aud: rules.audience, sub: 'billing', exp: NOW / 1000 + 60, ...claims };
  return new SignJWT(all).setProtectedHeader({ alg: 'EdDSA', kid: 'one' }).sign(key);
}

interface SetUp {
  readonly tokens?: string[];
  /** `none`: JWTs are not accepted. */
  readonly keys?: JwtKeys | 'none';
}

function setUp({ tokens = ['tm_one'], keys = readPublicKey(pem) }: SetUp = {}) {
  const clock = { now: NOW };
  const state = (some: string[]) => ({ table: table(some), jwt: keys === 'none' ? undefined : { keys, rules } });
  const access = new Access(state(tokens), () => clock.now);
  const reasonOf = (ask: () => void): string => {
    try {
      ask();
      return 'allowed';
    } catch (error) {
      return (error as { reason: string }).reason;
    }
  };
  return { access, clock, state, reasonOf };
}

describe('rights of a principal', () => {
  test.each([
    ['enqueue', 'billing-eu', 'allowed'],
    ['lease', 'billing-eu', 'allowed'],
    ['enqueue', '', 'allowed'],
    ['enqueue', 'billing', 'PERMISSION_DENIED'],
    ['read', 'shop', 'allowed'],
    ['enqueue', 'shop', 'PERMISSION_DENIED'],
    ['manage-queues', 'billing-eu', 'PERMISSION_DENIED'],
  ] as const)('%s on %j: %s', async (right, group, expected) => {
    const { access, reasonOf } = setUp();
    const caller = await access.identify({ kind: 'bearer', token: 'tm_one' });
    expect(reasonOf(() => caller.require(right, group))).toBe(expected);
    expect(caller.allows(right, group)).toBe(expected === 'allowed');
  });

  test('over the cluster allow backups, too, and backups alone allow nothing else', () => {
    const rightsOf = (allow: Right) => {
      const principal = new Principal('x', [{ allow: [allow] }]);
      return rights.filter((right) => principal.has(right, undefined) || principal.has(right, 'shop'));
    };
    expect(rightsOf('manage-cluster')).toEqual(['manage-cluster', 'back-up']);
    expect(rightsOf('back-up')).toEqual(['back-up']);
  });

  test('a refusal names principal, right and group', async () => {
    const { access } = setUp();
    const caller = await access.identify({ kind: 'bearer', token: 'tm_one' });
    expect(() => caller.require('enqueue', 'shop')).toThrow(
      expect.objectContaining({ metadata: { principal: 'billing', right: 'enqueue', group: 'shop' } }),
    );
  });
});

describe('credentials', () => {
  test.each([
    ['none', undefined, [], 'UNAUTHENTICATED'],
    ['a known token', 'Bearer tm_one', [], 'allowed'],
    ['a token with another case of the scheme', 'bearer tm_one', [], 'allowed'],
    ['an unknown token', 'Bearer tm_two', [], 'UNAUTHENTICATED'],
    ['the hash of a token', `Bearer ${hashOfToken('tm_one')}`, [], 'UNAUTHENTICATED'],
    ['another scheme', 'Basic dG1fb25l', [], 'UNAUTHENTICATED'],
    ['a very long token', `Bearer ${'a'.repeat(100_000)}`, [], 'UNAUTHENTICATED'],
    ['a known certificate', undefined, ['x.example', 'billing.example'], 'allowed'],
    ['an unknown certificate', undefined, ['x.example'], 'UNAUTHENTICATED'],
    ['a wrong token and a known certificate', 'Bearer tm_two', ['billing.example'], 'UNAUTHENTICATED'],
  ])('%s', async (_name, header, names, expected) => {
    const { access, reasonOf } = setUp();
    const caller = await access.identify(credentialOf(header, names));
    expect(reasonOf(() => caller.requireIdentity())).toBe(expected);
    expect(reasonOf(() => caller.requireCluster('manage-cluster'))).toBe(expected);
  });

  test('a revoked token is refused at once, and its principal stays for other tokens', async () => {
    const { access, state, reasonOf } = setUp({ tokens: ['tm_one', 'tm_two'] });
    const callers = await Promise.all(['tm_one', 'tm_two'].map((token) => access.identify({ kind: 'bearer', token })));
    access.replace(state(['tm_two']));
    expect(callers.map((caller) => reasonOf(() => caller.requireIdentity()))).toEqual(['UNAUTHENTICATED', 'allowed']);
  });

  test('new tokens are long and differ', () => {
    expect(newToken()).toMatch(/^tm_[\w-]{43}$/);
    expect(newToken()).not.toBe(newToken());
  });
});

describe('JWTs', () => {
  const keySet = async (): Promise<JwtKeys> =>
    readKeySet(JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: 'one', alg: 'EdDSA' }] }));
  const forged = (header: object, payload: object): string =>
    `${[header, payload].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')}.`;
  const claims = { iss: rules.issuer, aud: rules.audience, sub: 'billing', exp: NOW / 1000 + 60 };

  test.each([
    ['a valid one', () => jwt(), 'allowed'],
    ['an expired one', () => jwt({ exp: NOW / 1000 - 60 }), 'UNAUTHENTICATED'],
    ['another issuer', () => jwt({ iss: 'https://other.example' }), 'UNAUTHENTICATED'],
    ['another audience', () => jwt({ aud: 'other' }), 'UNAUTHENTICATED'],
    ['an unknown subject', () => jwt({ sub: 'shop' }), 'UNAUTHENTICATED'],
    ['another key', () => jwt({}, other.privateKey), 'UNAUTHENTICATED'],
    ['no signature', async () => `${forged({ alg: 'none' }, claims)}x`, 'UNAUTHENTICATED'],
    [
      'a signature with the public key as a secret',
      () => new SignJWT(claims).setProtectedHeader({ alg: 'HS256' }).sign(Buffer.from(pem)),
      'UNAUTHENTICATED',
    ],
    [
      'no expiry',
      () => new SignJWT({ ...claims, exp: undefined }).setProtectedHeader({ alg: 'EdDSA' }).sign(privateKey),
      'UNAUTHENTICATED',
    ],
  ])('%s', async (_name, make, expected) => {
    for (const keys of [readPublicKey(pem), await keySet()]) {
      const { access, reasonOf } = setUp({ keys });
      const caller = await access.identify({ kind: 'bearer', token: await make() });
      expect(reasonOf(() => caller.requireIdentity())).toBe(expected);
    }
  });

  test('expire while their caller is connected', async () => {
    const { access, clock, reasonOf } = setUp();
    const token = await jwt();
    const caller = await access.identify({ kind: 'bearer', token });
    clock.now += 64_000;
    expect(reasonOf(() => caller.requireIdentity())).toBe('allowed');
    clock.now += 2_000;
    expect(reasonOf(() => caller.requireIdentity())).toBe('UNAUTHENTICATED');
    expect(reasonOf(() => (access.identify({ kind: 'bearer', token }) as typeof caller).requireIdentity())).toBe(
      'UNAUTHENTICATED',
    );
  });

  test.each([1e300, 1.7e308, NOW / 1000 + 60.123456])('an expiry of %d is told as a date', async (exp) => {
    const { access } = setUp();
    const caller = await access.identify({ kind: 'bearer', token: await jwt({ exp }) });
    caller.requireIdentity();
    expect(Number.isSafeInteger(caller.expiresAt)).toBe(true);
    expect(new Date(caller.expiresAt).getTime()).toBe(caller.expiresAt);
  });

  test('are refused without a key', async () => {
    const { access, reasonOf } = setUp({ keys: 'none' });
    const caller = await access.identify({ kind: 'bearer', token: await jwt() });
    expect(reasonOf(() => caller.requireIdentity())).toBe('UNAUTHENTICATED');
  });

  test('secret keys are refused', () => {
    expect(() => readPublicKey(privateKey.export({ type: 'pkcs8', format: 'pem' }) as string)).toThrow(/private key/);
    expect(() => readKeySet('{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}')).toThrow(/secret key/);
  });
});

describe('quotas of a principal', () => {
  const limited = (waiters?: number) => ({
    table: new AccessTable({
      principals: [{ name: 'shop', tokens: [hashOfToken('tm_one')], ...(waiters && { limits: { waiters } }) }],
    }),
  });

  test('change with the rules, and what is used stays', async () => {
    const access = new Access(limited(1));
    const caller = await access.identify({ kind: 'bearer', token: 'tm_one' });
    caller.usage?.beginWaiting();
    expect(() => caller.usage?.beginWaiting()).toThrow(/quota of 1 waiters/);
    access.replace(limited());
    expect(caller.usage).toBeUndefined();
    access.replace(limited(2));
    caller.usage?.beginWaiting();
    expect(caller.usage?.used('waiters')).toBe(2);
  });
});
