import type { Family } from '../../ports/store.ts';
import type { Failure } from '../rocks-errors.ts';

/** What the writer thread is started with. */
export interface WriterSetup {
  readonly handle: bigint;
  readonly dir: string;
  /** Number of the last group of writes in the database. */
  readonly groupNumber: number;
  /** Longest time a write that did not ask for it stays unsynced, in ms. */
  readonly flushIntervalMs: number;
}

/** To the writer thread; taken in order. */
export type WriterRequest =
  | {
      readonly kind: 'write';
      readonly id: number;
      /** Rises with every refusal that was delivered; what was sent before belongs to the refused. */
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

/** From the writer thread. */
export type WriterReply =
  | { readonly kind: 'ready' }
  /**
   * The requests up to this one, since the last such reply, took effect and are synced if asked. `spent` is the memory of
   * their records, to be used again.
   */
  | { readonly kind: 'done'; readonly through: number; readonly spent: readonly ArrayBuffer[] }
  /** Nothing since the last reply took effect, nor will anything of this era. */
  | { readonly kind: 'refused'; readonly failure: Failure }
  /** As `refused`, and nothing will be written any more. */
  | { readonly kind: 'failed'; readonly failure: Failure };

/** Bytes of rows after which a group is committed though more is waiting, so that one group does not delay all. */
export const GROUP_BYTES = 4 * 1024 * 1024;
