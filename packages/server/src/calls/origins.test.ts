import { Metadata } from '@grpc/grpc-js';
import type { Refusal } from '@taskmaster/engine/domain';
import { hashOfToken } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { Access } from '../access/access.ts';
import { AccessTable } from '../access/access-table.ts';
import { unlimitedAccess } from '../access/caller-access.ts';
import { IdentitySeal } from './identity-seal.ts';
import { IDENTITY_HEADER, Origins, ROUTED_HEADER } from './origins.ts';

const NOW = Date.UTC(2030, 0, 1);
const KEY = 'a key of the cluster';
const LOCAL = '127.0.0.1:4000';
const CALLER = { address: '10.9.9.9:1', principal: 'billing' };

function metadata(headers: Readonly<Record<string, string>> = {}): Metadata {
  const made = new Metadata();
  for (const [name, value] of Object.entries(headers)) made.set(name, value);
  return made;
}

const routed = (identity?: string) =>
  metadata({ [ROUTED_HEADER]: '1', ...(identity !== undefined && { [IDENTITY_HEADER]: identity }) });

const peerOf = (index: number): string => `10.0.${index >> 8}.${index & 255}:4000`;

const sealWith = (keys: readonly string[], now = NOW) =>
  new IdentitySeal(keys, { wall: () => now, elapsed: () => 1_000 });

const access = new Access({
  table: new AccessTable({
    principals: [
      { name: 'billing', tokens: [hashOfToken('tm_billing')] },
      { name: 'shop', certificates: ['shop.example'] },
    ],
  }),
});

describe('the caller of a call', () => {
  test('is the peer of the connection, however many proxies there were', async () => {
    const origins = new Origins();
    for (let round = 1; round <= 2; round++) {
      for (let index = 0; index < 1500; index++) {
        expect(await origins.of(metadata(), peerOf(index))).toEqual({
          address: peerOf(index),
          routed: false,
          forwarded: false,
          access: unlimitedAccess,
        });
      }
    }
  });

  test.each([
    ['a proxy with the key', [KEY], sealWith([KEY]).write(CALLER), peerOf(1), '10.9.9.9:1'],
    ['a proxy with an older key', ['new key', KEY], sealWith([KEY]).write(CALLER), peerOf(1), '10.9.9.9:1'],
    ['a proxy with another key', [KEY], sealWith(['another key']).write(CALLER), peerOf(1), peerOf(1)],
    ['a caller without a key', [KEY], sealWith([]).write(CALLER), peerOf(1), peerOf(1)],
    ['a caller without a key on this machine', [KEY], sealWith([]).write(CALLER), LOCAL, LOCAL],
    ['a proxy with another clock', [KEY], sealWith([KEY], NOW - 6 * 60_000).write(CALLER), peerOf(1), '10.9.9.9:1'],
    ['an address alone', [KEY], '10.9.9.9:1', peerOf(1), peerOf(1)],
    ['a very long header', [KEY], 'a.'.repeat(10_000), peerOf(1), peerOf(1)],
    ['no header', [KEY], undefined, peerOf(1), peerOf(1)],
    ['another machine without keys', [], sealWith([]).write(CALLER), peerOf(1), peerOf(1)],
    ['this machine without keys', [], sealWith([]).write(CALLER), LOCAL, '10.9.9.9:1'],
  ])('named by %s', async (_name, keys, header, peer, expected) => {
    const origins = new Origins({ seal: sealWith(keys) });
    for (let round = 1; round <= 2; round++) {
      expect(await origins.of(routed(header), peer)).toMatchObject({ address: expected, routed: true });
      const { forwarded } = await origins.of(routed(header), peer);
      expect(forwarded).toBe(expected === '10.9.9.9:1');
    }
  });

  test('a header that was altered is not believed', async () => {
    const origins = new Origins({ seal: sealWith([KEY]), access });
    const [version, sender, expiry, address, , code] = sealWith([KEY]).write(CALLER).split('.');
    const forged = [version, sender, expiry, address, Buffer.from('shop').toString('base64url'), code].join('.');
    expect((await origins.of(routed(forged), peerOf(1))).access.principal).toBe('');
  });

  test('only a routed call may name another caller', async () => {
    const origins = new Origins({ seal: sealWith([KEY]) });
    const header = sealWith([KEY]).write(CALLER);
    expect(await origins.of(metadata({ [IDENTITY_HEADER]: header }), peerOf(1))).toMatchObject({ address: peerOf(1) });
  });
});

describe('the principal of a call', () => {
  test.each([
    ['a token', [KEY], metadata({ authorization: 'Bearer tm_billing' }), 'billing'],
    ['a wrong token', [KEY], metadata({ authorization: 'Bearer tm_other' }), ''],
    ['a certificate', [KEY], metadata(), 'shop'],
    ['a sealed header', [KEY], routed(sealWith([KEY]).write(CALLER)), 'billing'],
    [
      'a sealed header for the cluster itself',
      [KEY],
      routed(sealWith([KEY]).write({ address: '', principal: '(cluster)' })),
      '(cluster)',
    ],
    ['a sealed header without a principal', [KEY], routed(sealWith([KEY]).write({ ...CALLER, principal: '' })), ''],
    ['a header without a seal', [], routed(sealWith([KEY]).write(CALLER)), ''],
  ])('comes from %s', async (name, keys, headers, expected) => {
    const certificateNames = () => (name === 'a certificate' ? ['shop.example'] : []);
    const origins = new Origins({ access, seal: sealWith(keys), certificateNames });
    expect((await origins.of(headers, LOCAL)).access.principal).toBe(expected);
  });
});

describe('a header that is out of time', () => {
  const MINUTE = 60_000;

  /** A seal whose clocks a test sets. */
  function timed(wall: number, elapsed: number) {
    const time = { wallMs: wall, elapsedMs: elapsed, wall: () => time.wallMs, elapsed: () => time.elapsedMs };
    return { time, seal: new IdentitySeal([KEY], time) };
  }

  /** The reason and the challenge of the refusal; undefined: the call is served. */
  async function refusalOf(seal: IdentitySeal, header: string) {
    const { access: asked } = await new Origins({ seal, access }).of(routed(header), peerOf(1));
    try {
      asked.requireIdentity();
      return undefined;
    } catch (thrown) {
      return thrown as Refusal;
    }
  }

  test.each([
    ['has expired', -6 * MINUTE, 'a system clock that is 360 s behind'],
    ['is from the far future', 6 * MINUTE, 'a system clock that is 360 s ahead of'],
  ])('since it %s gives no rights, and is refused with a challenge', async (_name, aheadMs, text) => {
    const node = timed(NOW, 5_000);
    const proxy = timed(NOW + aheadMs, 900_000);
    const refusal = await refusalOf(node.seal, proxy.seal.write(CALLER));
    expect(refusal).toMatchObject({ reason: 'CLOCK_SKEW', message: expect.stringContaining(text) });
    const receiver = proxy.seal.receiverOf(refusal?.metadata.challenge ?? '');
    const answer = proxy.seal.write(CALLER, receiver);
    expect(await refusalOf(node.seal, answer)).toBeUndefined();
    // What follows does not need another challenge, whatever the system clocks do.
    for (const setBackMs of [60 * MINUTE, -600 * MINUTE, 5 * MINUTE]) {
      node.time.wallMs += setBackMs;
      proxy.time.wallMs -= setBackMs;
      for (const { time } of [node, proxy]) time.elapsedMs += 3 * MINUTE;
      expect(await refusalOf(node.seal, proxy.seal.write(CALLER, receiver))).toBeUndefined();
    }
    // A copy is of no use after five minutes, at another node, or after a restart.
    expect(await refusalOf(node.seal, answer)).toMatchObject({ reason: 'CLOCK_SKEW' });
    const fresh = proxy.seal.write(CALLER, receiver);
    const sameKey = timed(node.time.wallMs, node.time.elapsedMs);
    expect(await refusalOf(sameKey.seal, fresh)).toMatchObject({ reason: 'CLOCK_SKEW' });
    node.time.wallMs -= 4 * MINUTE;
    node.time.elapsedMs += 6 * MINUTE;
    expect(await refusalOf(node.seal, fresh)).toMatchObject({ reason: 'CLOCK_SKEW' });
  });

  test('stays out of time when the system clock of the receiver is set back to it', async () => {
    const node = timed(NOW, 0);
    const header = sealWith([KEY]).write(CALLER);
    expect(await refusalOf(node.seal, header)).toBeUndefined();
    node.time.elapsedMs += 6 * MINUTE;
    expect(await refusalOf(node.seal, header)).toMatchObject({ reason: 'CLOCK_SKEW' });
  });

  test('tells nothing to a sender without a key, and a challenge without a key is not believed', async () => {
    const stranger = new IdentitySeal(['another key'], { wall: () => NOW - 6 * MINUTE, elapsed: () => 0 });
    expect(await refusalOf(sealWith([KEY]), stranger.write(CALLER))).toMatchObject({ reason: 'UNAUTHENTICATED' });
    expect(sealWith([KEY]).receiverOf(stranger.challenge())).toBeUndefined();
    const [run, , code] = sealWith([KEY]).challenge().split('.');
    expect(sealWith([KEY]).receiverOf([run, NOW, code].join('.'))).toBeUndefined();
  });
});
