import type { Family } from '@taskmaster/engine/ports';
import type { Failure } from '../rocks-errors.ts';

/** The setup of the writer thread. */
export interface WriterSetup {
  readonly handle: bigint;
  readonly dir: string;
  /** Number of the last group of writes in the database. */
  readonly groupNumber: number;
  /** Longest time that a write without `sync` stays unsynced, in ms. */
  readonly flushIntervalMs: number;
}

/** A request to the writer thread. Requests are processed in order. */
export type WriterRequest =
  | {
      readonly kind: 'write';
      readonly id: number;
      /** Grows with every delivered refusal. Requests of an earlier era belong to the refused ones. */
      readonly era: number;
      readonly records: Uint8Array<ArrayBuffer>;
      readonly sync: boolean;
    }
  | {
      readonly kind: 'deleteRange';
      readonly id: number;
      readonly era: number;
      readonly family: Family;
      readonly gte: string;
      readonly lt: string;
    }
  | { readonly kind: 'close' };

/** A reply of the writer thread. */
export type WriterReply =
  | { readonly kind: 'ready' }
  /**
   * All requests up to `through` have taken effect, and are synced if requested. `spent`: the memory of their records, to be
   * used again.
   */
  | { readonly kind: 'done'; readonly through: number; readonly spent: readonly ArrayBuffer[] }
  /** No request since the last reply has taken effect, and no request of this era will. */
  | { readonly kind: 'refused'; readonly failure: Failure }
  /** As `refused`, and all later requests fail, too. */
  | { readonly kind: 'failed'; readonly failure: Failure };

/** Size of a group in bytes at which it is committed even if more writes wait, because a large group delays all callers. */
export const GROUP_BYTES = 4 * 1024 * 1024;
