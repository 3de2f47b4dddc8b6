/** Exit codes of `taskmaster`. Scripts rely on them. */
export const exitCodes = {
  ok: 0,
  /** The request was refused or failed. The reason is printed. */
  failed: 1,
  /** The command line or its input is wrong. */
  usage: 2,
  /** No node answered in time. The same command may succeed later. */
  unreachable: 3,
  /** There is no such task, or no task to lease or to show. */
  nothing: 4,
  /** Some nodes did not answer. What they hold is missing in the output. */
  incomplete: 5,
} as const;

/** Signals that interrupt a command (Ctrl-C, an orchestrator, a closed terminal), with the exit codes that shells use. */
export const signalExitCodes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;

export type EndingSignal = keyof typeof signalExitCodes;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes] | (typeof signalExitCodes)[EndingSignal];

export const exitCodesHelp = `Exit codes:
  0    done
  1    refused or failed; the reason is printed
  2    the command line or its input is wrong
  3    no node could be reached, or no node answered in time
  4    not found: no task to lease or to show, or no such task
  5    incomplete: some nodes did not answer, and stderr says what is missing
  130  interrupted by Ctrl-C (143 by SIGTERM, 129 by SIGHUP when the terminal closes)`;
