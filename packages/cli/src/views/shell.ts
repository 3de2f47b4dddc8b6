import type { Readable } from 'node:stream';
import type { Messages, Output } from './output.ts';

/** The streams of a command and the signal that interrupts it. */
export interface Shell {
  readonly stdin: Readable & { readonly isTTY?: boolean };
  readonly out: Output;
  readonly err: Messages;
  /** Aborted by Ctrl-C, SIGTERM or SIGHUP. Its reason is an `InterruptedError`. */
  readonly signal: AbortSignal;
}
