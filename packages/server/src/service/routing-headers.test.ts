import { Metadata } from '@grpc/grpc-js';
import { describe, expect, test } from 'vitest';
import { originOf, PEER_HEADER, ROUTED_HEADER } from './routing-headers.ts';

function metadata(headers: Readonly<Record<string, string>> = {}): Metadata {
  const made = new Metadata();
  for (const [name, value] of Object.entries(headers)) made.set(name, value);
  return made;
}

const peerOf = (index: number): string => `10.0.${index >> 8}.${index & 255}:4000`;

describe('the caller of a call', () => {
  test('is the peer of the connection, however many proxies there were', () => {
    for (let round = 1; round <= 2; round++) {
      for (let index = 0; index < 1500; index++) {
        expect(originOf(metadata(), peerOf(index))).toEqual({ address: peerOf(index), routed: false });
      }
    }
  });

  test('is the client that a proxy names, and only a proxy may name one', () => {
    const proxied = { [PEER_HEADER]: '10.9.9.9:1' };
    expect(originOf(metadata(proxied), peerOf(1))).toEqual({ address: peerOf(1), routed: false });
    const routed = { ...proxied, [ROUTED_HEADER]: '1' };
    expect(originOf(metadata(routed), peerOf(1))).toEqual({ address: '10.9.9.9:1', routed: true });
    expect(originOf(metadata({ [ROUTED_HEADER]: '1' }), peerOf(1))).toEqual({ address: peerOf(1), routed: true });
  });
});
