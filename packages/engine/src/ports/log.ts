/** A log for people. A pino logger is one. */
export interface Log {
  debug(details: object, message: string): void;
  info(details: object, message: string): void;
  warn(details: object, message: string): void;
  /** Put an error into `details` as `err`: its stack is logged too. */
  error(details: object, message: string): void;
}
