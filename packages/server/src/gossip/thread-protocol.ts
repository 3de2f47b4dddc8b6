import type { MemberMeta, Peer } from '../ports/membership.ts';
import type { SwimFigures, SwimMemberOptions } from './swim-member.ts';

export interface GossipThreadSetup {
  readonly member: SwimMemberOptions;
  /** Each thread raises its own beat and watches the other's. */
  readonly beats: SharedArrayBuffer;
  /** A main loop that stood still for this long is no member, in ms. */
  readonly hangAfterMs: number;
}

/** Places of the beats. */
export const MAIN_BEAT = 0;
export const THREAD_BEAT = 1;

export type ToGossip =
  | { readonly kind: 'announce'; readonly meta: MemberMeta }
  | { readonly kind: 'seek'; readonly addresses: readonly string[] }
  | { readonly kind: 'leave' }
  | { readonly kind: 'close' };

export type FromGossip =
  | { readonly kind: 'open'; readonly gossipAddress: string }
  /** Errors lose their class between threads. */
  | { readonly kind: 'cannotListen'; readonly host: string; readonly port: number; readonly code: string }
  | { readonly kind: 'peers'; readonly peers: readonly Peer[] }
  | { readonly kind: 'figures'; readonly figures: SwimFigures; readonly hangs: number }
  | { readonly kind: 'log'; readonly level: 'debug' | 'info' | 'warn' | 'error'; details: object; message: string }
  | { readonly kind: 'closed' };
