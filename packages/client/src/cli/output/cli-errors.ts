import { type EndingSignal, type ExitCode, exitCodes } from './exit-codes.ts';

/** The command line, or what it was to read, makes no sense; nothing was asked of a node. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** The command failed on this side of the network: a file cannot be read, some tasks of many were refused, ... */
export class CommandFailedError extends Error {
  override readonly name = 'CommandFailedError';
  /** Stable, for programs. */
  readonly reason: string;
  /** What to do next. */
  readonly hint: string | undefined;
  readonly exitCode: ExitCode;

  constructor(
    reason: string,
    message: string,
    options: { readonly hint?: string; readonly exitCode?: ExitCode; readonly cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.reason = reason;
    this.hint = options.hint;
    this.exitCode = options.exitCode ?? exitCodes.failed;
  }
}

/** What went wrong is printed already; only the exit code is left to say. */
export class AlreadyReportedError extends Error {
  override readonly name = 'AlreadyReportedError';
}

/** A signal ended the command. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError';
  readonly signalName: EndingSignal;

  constructor(signalName: EndingSignal) {
    super(`interrupted by ${signalName}`);
    this.signalName = signalName;
  }
}
