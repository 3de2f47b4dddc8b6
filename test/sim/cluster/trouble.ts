const DISK_ERRORS: ReadonlySet<string> = new Set([
  'SimCrashedError',
  'StoreFailedError',
  'STORE_FAILED',
  'StoreFullError',
  'DISK_FULL',
  // Another node has taken its place.
  'StoreLostError',
]);

/** Collects the violations of a simulation, and the lines of its trace. */
export class Trouble {
  readonly violations: string[] = [];
  /** A log for parts of the product: errors are violations, unless a simulated disk has caused them. */
  readonly log = {
    debug: (): void => {},
    info: (): void => {},
    warn: (): void => {},
    error: (details: object, message: string): void => {
      if (!isOfDisk(details)) this.report(`logged as an error: ${message} ${shown(details)}`);
    },
  };
  readonly #now: () => number;
  readonly #start: number;
  readonly #sink: ((line: string) => void) | undefined;

  constructor(now: () => number, sink: ((line: string) => void) | undefined) {
    this.#now = now;
    this.#start = now();
    this.#sink = sink;
  }

  get isTraced(): boolean {
    return this.#sink !== undefined;
  }

  get elapsedMs(): number {
    return this.#now() - this.#start;
  }

  /** Adds a line to the trace. `line` is called only if there is a trace. */
  trace(line: () => string): void {
    this.#sink?.(`+${this.elapsedMs} ${line()}`);
  }

  report(violation: string): void {
    this.violations.push(violation);
    this.trace(() => `VIOLATION ${violation}`);
  }
}

/** True for errors of a process after its end, and for errors of its disk. */
function isOfDisk(details: object): boolean {
  let error = 'err' in details ? details.err : undefined;
  while (error instanceof Error) {
    if (DISK_ERRORS.has(error.name) || ('reason' in error && DISK_ERRORS.has(String(error.reason)))) return true;
    error = error.cause;
  }
  return false;
}

function shown(details: object): string {
  const { err, ...rest } = details as { readonly err?: unknown };
  const problem = err instanceof Error ? ` ${err.stack ?? err.message}` : '';
  return JSON.stringify(rest) + problem;
}
