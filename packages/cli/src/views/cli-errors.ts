import { type EndingSignal, type ExitCode, exitCodes } from './exit-codes.ts';

/** The command line or its input is wrong. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** The command failed, and no error of the client says why: a file cannot be read, for example. */
export class CommandFailedError extends Error {
  override readonly name = 'CommandFailedError';
  /** Stable name for programs. */
  readonly reason: string;
  /** The next step of the user. */
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

/** The command failed and has printed why. */
export class AlreadyReportedError extends Error {
  override readonly name = 'AlreadyReportedError';
}

/** A signal interrupted the command. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError';
  readonly signalName: EndingSignal;

  constructor(signalName: EndingSignal) {
    super(`interrupted by ${signalName}`);
    this.signalName = signalName;
  }
}
