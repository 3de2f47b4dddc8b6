import { type DestinationStream, destination, type Logger, pino, stdTimeFunctions } from 'pino';

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** A log of JSON lines, on standard error unless told otherwise: standard output belongs to what a command answers. */
export function createLogger(level: LogLevel, out: DestinationStream = destination({ fd: 2, sync: true })): Logger {
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
