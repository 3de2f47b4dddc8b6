import type { Metadata } from '@grpc/grpc-js';
import { peerAddress } from './parse/host-port.ts';
import type { Origin } from './raw-service.ts';

/**
 * A router sets it to `1`. The node then serves the call or refuses it with NOT_HOLDER, so that calls do not go round in circles.
 */
export const ROUTED_HEADER = 'taskmaster-routed';
/** The address of the router's caller. It counts only together with `taskmaster-routed`. */
export const PEER_HEADER = 'taskmaster-peer';

/** Longer addresses are not valid. */
const ADDRESS_CHARACTERS = 128;

/** Origins of direct callers, by peer. They are shared because ten thousand waiting calls would each keep their own. */
const direct = new Map<string, Origin>();
const MOST_DIRECT = 1024;

/** The client that makes a call: the peer of the connection, or the caller of a router. */
export function originOf(metadata: Metadata, peer: string): Origin {
  if (metadata.get(ROUTED_HEADER)[0] !== '1') return directOrigin(peer);
  const [given] = metadata.get(PEER_HEADER);
  const believed = typeof given === 'string' && given !== '' && given.length <= ADDRESS_CHARACTERS;
  return { address: believed ? given : peerAddress(peer), routed: true };
}

function directOrigin(peer: string): Origin {
  const known = direct.get(peer);
  if (known !== undefined) return known;
  const origin = { address: peerAddress(peer), routed: false };
  if (direct.size >= MOST_DIRECT) direct.clear();
  direct.set(peer, origin);
  return origin;
}
