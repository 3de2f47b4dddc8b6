import { expect, test } from 'vitest';
import { memberMeta } from '../../testing/membership-contract.ts';
import { isHost, packMeta, parseMessages, unpackMeta } from './messages.ts';

const decode = (bytes: Buffer): unknown => JSON.parse(bytes.toString());
const message = (kind: number, data: unknown): Buffer =>
  Buffer.concat([Buffer.of(kind), Buffer.from(JSON.stringify(data))]);
const compound = (...messages: Buffer[]): Buffer =>
  Buffer.concat([Buffer.of(0, messages.length, 0), ...messages.flatMap((one) => [Buffer.of(one.length, 0), one])]);
const member = { host: '10.0.0.1:7', state: 0, incarnation: 3, meta: packMeta(memberMeta('a')) };

test('messages of members are parsed, alone and together', () => {
  expect(parseMessages(message(10, { seq: 1 }), decode)).toEqual([{ event: 'ping', data: { seq: 1 } }]);
  expect(parseMessages(compound(message(13, { seq: 1 }), message(14, member)), decode)).toEqual([
    { event: 'ack', data: { seq: 1 } },
    { event: 'update', data: member },
  ]);
});

test.each([
  ['nothing', Buffer.alloc(0)],
  ['an unknown kind', message(99, { seq: 1 })],
  ['a body that does not decode', Buffer.from('\x0a{')],
  ['null', message(10, null)],
  ['no sequence', message(13, {})],
  ['a destination with port 0', message(11, { seq: 1, destination: '10.0.0.1:0' })],
  ['a destination with a name', message(11, { seq: 1, destination: 'example.test:80' })],
  ['no host', message(14, { ...member, host: undefined })],
  ['an unknown state', message(14, { ...member, state: 3 })],
  ['an incarnation that no larger one can correct', message(14, { ...member, incarnation: 2 ** 53 - 1 })],
  ['an incarnation that is no safe integer', message(12, { ...member, incarnation: Number.MAX_VALUE })],
  ['no description', message(12, { ...member, meta: undefined })],
  ['a short description', message(12, { ...member, meta: ['id'] })],
  ['a compound within a compound', compound(compound(message(10, { seq: 1 })))],
  ['a compound that ends early', compound(message(10, { seq: 1 })).subarray(0, -1)],
  ['a compound with one bad message', compound(message(10, { seq: 1 }), message(10, null))],
])('a datagram with %s is refused as a whole', (_what, body) => {
  expect(parseMessages(body, decode)).toBeUndefined();
});

test('descriptions are read as they were packed, and a description that is too long is refused when it is packed', () => {
  const meta = { ...memberMeta('a'), httpAddress: 'a.test:8080' };
  expect(unpackMeta(packMeta(meta))).toEqual(meta);
  expect(unpackMeta(packMeta(memberMeta('a')))).toEqual(memberMeta('a'));
  expect(() => packMeta(memberMeta('x'.repeat(400)))).toThrow(/gossip carries at most 400/);
});

test('hosts are IPv4 addresses with a port', () => {
  expect(isHost('127.0.0.1:65535')).toBe(true);
  for (const host of ['127.0.0.1', '127.0.0.1:65536', 'localhost:1', '1.2.3:4', '::1:5', 7]) {
    expect(isHost(host)).toBe(false);
  }
});
