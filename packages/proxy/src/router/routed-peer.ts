import { clusterAccess } from '@taskmaster/server/access';
import type { Caller } from '@taskmaster/server/calls';
import type { RoutedPeer } from '../upstream/upstream.ts';

/** The caller as nodes get it. It keeps nothing else of the call. */
export function peerOf({
  address,
  access,
  traceparent,
}: Pick<Caller, 'address' | 'access' | 'traceparent'>): RoutedPeer {
  return { address, principal: access.principal, traceparent };
}

/** For updates of all callers of a principal over one stream: nodes do not need the addresses of their callers. */
export function sharedPeerOf(principal: string): RoutedPeer {
  return { address: '', principal };
}

/** For the calls that a router makes for itself. */
export const routerItself: RoutedPeer = { address: '', principal: clusterAccess.principal };
