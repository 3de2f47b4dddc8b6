/** Where a node writes what people should know. pino's loggers are such logs. */
export interface Log {
  debug(details: object, message: string): void;
  info(details: object, message: string): void;
  warn(details: object, message: string): void;
  /** An error goes into `details` as `err`; its stack is written too. */
  error(details: object, message: string): void;
}
