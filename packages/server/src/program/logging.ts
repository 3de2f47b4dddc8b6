import { visibleJson } from '@taskmaster/proto';
import { type DestinationStream, destination, type Logger, pino, stdTimeFunctions } from 'pino';

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** Limit of the log lines kept in memory while they cannot be written. */
const MAX_BUFFERED_BYTES = 1024 * 1024;

/** A log of JSON lines, by default on standard error. Standard output is for the results of commands. */
export function createLogger(level: LogLevel, out: DestinationStream = standardError()): Logger {
  return pino(
    {
      level,
      base: undefined,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line) => out.write(visibleJson(line)) },
  );
}

function standardError(): DestinationStream {
  const out = destination({ fd: 2, sync: true, maxLength: MAX_BUFFERED_BYTES });
  // The process goes on without its log if the terminal is gone or the disk is full.
  out.on('error', () => {});
  return out;
}
