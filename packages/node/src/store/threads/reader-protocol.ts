import type { Family } from '@taskmaster/engine/ports';
import type { Failure } from '../rocks-errors.ts';

export interface ReaderSetup {
  readonly handle: bigint;
}

/** Keys are latin1. */
export type Read =
  | { readonly kind: 'get'; readonly family: Family; readonly keys: readonly string[] }
  | {
      readonly kind: 'scan';
      readonly family: Family;
      readonly gte: string;
      readonly lt: string;
      readonly rows: number;
      readonly bytes: number;
      readonly once?: boolean;
    };

/** The reads of one turn of the event loop. They are answered together, in order. */
export type ReaderRequest = { readonly kind: 'read'; readonly reads: readonly Read[] } | { readonly kind: 'close' };

/**
 * `block`: all values in sequence; for a scan, keys and values in turn. `lengths`: the length of each part, -1 for a missing
 * value.
 */
export type ReadResult =
  | { readonly kind: 'found'; readonly block: Uint8Array; readonly lengths: Int32Array }
  | { readonly kind: 'failed'; readonly failure: Failure };

export type ReaderReply =
  | { readonly kind: 'ready' }
  | { readonly kind: 'results'; readonly results: readonly ReadResult[] };
