import type { Metadata } from '@grpc/grpc-js';
import { peerAddress } from './parse/host-port.ts';
import type { Origin } from './raw-service.ts';

/** Set to `1` by whoever chose the node: it answers itself or says NOT_HOLDER, so that no call goes round in circles. */
export const ROUTED_HEADER = 'taskmaster-routed';
/** The address of the one who asks a proxy. Believed beside `taskmaster-routed` only. */
export const PEER_HEADER = 'taskmaster-peer';

/** Longer ones are nobody's address. */
const ADDRESS_CHARACTERS = 128;

/** Of those who call for themselves, by peer: what is made anew for each of ten thousand calls that wait, all of them keep. */
const direct = new Map<string, Origin>();
const MOST_DIRECT = 1024;

/** Who makes a call: the peer of the connection, or the one whom that peer speaks for. */
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
