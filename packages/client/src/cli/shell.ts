import type { Readable } from 'node:stream';
import type { Output, OutputStream } from './output/output.ts';

/** Where a command reads and writes. */
export interface Shell {
  readonly stdin: Readable & { readonly isTTY?: boolean };
  readonly out: Output;
  readonly err: OutputStream;
  /** Aborted by Ctrl-C, SIGTERM and SIGHUP; its reason is `InterruptedError`. */
  readonly signal: AbortSignal;
}
