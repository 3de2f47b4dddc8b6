/** How `taskmaster` ends; scripts rely on these. */
export const exitCodes = {
  ok: 0,
  /** A node refused the request, or something failed; the reason is printed. */
  failed: 1,
  /** The command line, or what was to be read by it, makes no sense. */
  usage: 2,
  /** No node could be reached or was ready in time; the same command may succeed later. */
  unreachable: 3,
  /** What was asked for is not there. */
  nothing: 4,
} as const;

/** What ends a command before its time (Ctrl-C, an orchestrator, a terminal that closes), and how, as shells count it. */
export const signalExitCodes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;

export type EndingSignal = keyof typeof signalExitCodes;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes] | (typeof signalExitCodes)[EndingSignal];

export const exitCodesHelp = `Exit codes:
  0    done
  1    refused or failed; the reason is printed
  2    the command line or its input makes no sense
  3    no node could be reached, or none was ready or answered in time
  4    nothing there: no task to lease or to show, or no such task
  130  interrupted by Ctrl-C (143 by SIGTERM, 129 by SIGHUP: the terminal was closed)`;
