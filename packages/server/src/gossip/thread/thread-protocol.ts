import type { MemberMeta, Peer } from '../../ports/membership.ts';
import type { SwimFigures, SwimMemberOptions } from '../swim/swim-member.ts';

export interface GossipThreadSetup {
  readonly member: SwimMemberOptions;
  /** Each thread increments its own heartbeat and watches that of the other. */
  readonly heartbeats: SharedArrayBuffer;
  /** If the main thread hangs for this long, the member goes silent, in ms. */
  readonly hangAfterMs: number;
}

/** Indices of the heartbeats. */
export const MAIN_HEARTBEAT = 0;
export const THREAD_HEARTBEAT = 1;

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
