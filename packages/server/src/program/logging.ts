import { type DestinationStream, destination, type Logger, pino, stdTimeFunctions } from 'pino';

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** What of the log is kept, in bytes, while it cannot be written. */
const KEPT_BYTES = 1024 * 1024;

/** A log of JSON lines, on standard error unless told otherwise: standard output belongs to what a command answers. */
export function createLogger(level: LogLevel, out: DestinationStream = standardError()): Logger {
  return pino(
    {
      level,
      base: undefined,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    out,
  );
}

function standardError(): DestinationStream {
  const out = destination({ fd: 2, sync: true, maxLength: KEPT_BYTES });
  // A terminal that is gone, a file on a full disk: that a line cannot be written is no reason to end.
  out.on('error', () => {});
  return out;
}
