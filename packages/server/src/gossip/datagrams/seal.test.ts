import { expect, test } from 'vitest';
import { MAX_DATAGRAM_BYTES, Seal, type SealOptions } from './seal.ts';

const seal = (change: Partial<SealOptions> = {}): Seal =>
  new Seal({ clusterId: 'c', keys: ['old'], nodeId: 'n', incarnation: 7, threadStart: 0, ...change });
const body = Buffer.from('hello');

test('a member opens the sealed datagrams of another member, once', () => {
  const [from, to] = [seal(), seal({ nodeId: 'm' })];
  const datagram = from.seal(body);
  expect(to.open(datagram)).toEqual({ body });
  expect(to.open(datagram)).toEqual({ refused: 'replayed' });
});

test('datagrams may overtake one another, and datagrams older than a window are refused', () => {
  const [from, to] = [seal(), seal()];
  const datagrams = Array.from({ length: 3000 }, () => from.seal(body));
  const open = (index: number) => to.open(datagrams[index] ?? Buffer.alloc(0));
  expect([2, 0, 1].map(open)).toEqual([{ body }, { body }, { body }]);
  expect(open(2999)).toEqual({ body });
  expect(open(2500)).toEqual({ body });
  expect([2500, 2999, 3].map(open)).toEqual(Array(3).fill({ refused: 'replayed' }));
});

test('datagrams of a restarted sender are opened, and later ones of its earlier start are refused', () => {
  const to = seal();
  const earlier = seal();
  expect(to.open(earlier.seal(body))).toEqual({ body });
  expect(to.open(seal({ threadStart: 1 }).seal(body))).toEqual({ body });
  expect(to.open(seal({ incarnation: 8 }).seal(body))).toEqual({ body });
  expect(to.open(earlier.seal(body))).toEqual({ refused: 'replayed' });
});

test('a key is replaced in three steps without a refused datagram', () => {
  const rings = [['old'], ['old', 'new'], ['new', 'old'], ['new']];
  rings.slice(1).forEach((keys, step) => {
    const [before, after] = [seal({ keys: rings[step] ?? [] }), seal({ keys, nodeId: 'm' })];
    expect(after.open(before.seal(body))).toEqual({ body });
    expect(before.open(after.seal(body))).toEqual({ body });
  });
  expect(seal({ keys: ['new'] }).open(seal().seal(body))).toEqual({ refused: 'unauthenticated' });
});

test('the body is secret where a key is set', () => {
  const secret = Buffer.from('names and addresses of members');
  expect(seal().seal(secret).includes(secret)).toBe(false);
  expect(seal({ keys: [] }).seal(secret).includes(secret)).toBe(true);
});

test('equal bodies look different in each datagram and after each start', () => {
  const from = seal();
  const datagrams = [from.seal(body), from.seal(body), seal().seal(body)];
  const bodies = datagrams.map((datagram) => datagram.subarray(45, -16).toString('hex'));
  expect(new Set(bodies).size).toBe(3);
});

test('members with and without a key refuse each other', () => {
  expect(seal().open(seal({ keys: [] }).seal(body))).toEqual({ refused: 'unauthenticated' });
  expect(seal({ keys: [] }).open(seal().seal(body))).toEqual({ refused: 'unauthenticated' });
});

test('every altered byte is noticed', () => {
  const datagram = seal().seal(body);
  for (let at = 0; at < datagram.length; at++) {
    const altered = Buffer.from(datagram);
    altered[at] = (altered[at] ?? 0) ^ 1;
    expect(seal().open(altered)).toHaveProperty('refused');
  }
});

test.each([
  ['of another cluster', seal({ clusterId: 'other' }).seal(body), 'otherCluster'],
  ['of another key', seal({ keys: ['guessed'] }).seal(body), 'unauthenticated'],
  ['altered', Buffer.concat([seal().seal(body).subarray(0, -17), Buffer.alloc(17)]), 'unauthenticated'],
  ['cut short', seal().seal(body).subarray(0, 40), 'malformed'],
  ['empty', Buffer.alloc(0), 'malformed'],
  ['of another program', Buffer.alloc(200, 'x'), 'malformed'],
  ['too long', seal().seal(Buffer.alloc(MAX_DATAGRAM_BYTES)), 'oversized'],
])('a datagram %s is refused', (_what, datagram, refused) => {
  expect(seal().open(datagram)).toEqual({ refused });
});
