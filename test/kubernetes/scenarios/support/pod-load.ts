import { expect } from 'vitest';
import { eventually } from '../../../support/eventually.ts';
import { clientCli } from '../../../support/paths.ts';
import { type Running, startProcess } from '../../../support/processes/child-process.ts';

/** Calls that show that the cluster serves. */
const ENOUGH = 200;
/** Routers wait this long for a node that is away. Then callers get an error (docs/operate/proxies.md). */
const AWAY_MS = 10_000;
/** The errors that callers get. A start takes seconds, and on a busy machine longer than routers wait. */
const WHILE_AWAY = new Set(['HOLDER_UNREACHABLE', 'SHUTTING_DOWN', 'STARTING']);
const OPTIONS = [
  // An open loop, so that a machine with two processors can also start nodes.
  '--verify',
  '--json',
  '--processes=4',
  '--rate=100',
  '--groups=4',
  '--duration=1h',
  // Longer than any pause that a test allows, so that a failed call is one that an application would see, too.
  '--timeout=90s',
  '--connect-timeout=30s',
  '--lease-duration=30s',
  '--payload=48-2000',
  '--pids=random',
];

/** The calls of one kind, in a line or in the report of `taskmaster load --json`. */
interface Calls {
  readonly count: number;
  readonly errors: Readonly<Record<string, number>>;
}

/** The end of a load, as far as the tests use it. */
export interface LoadReport {
  readonly kind: string;
  readonly elapsedMs: number;
  readonly total: {
    readonly calls: Readonly<Record<string, Calls>>;
    readonly retries: Readonly<Record<string, number>>;
  };
  readonly longestPause?: { readonly ms: number };
  readonly verification?: { readonly kind: string };
}

type Line = LoadReport | { readonly kind?: undefined; readonly calls: Readonly<Record<string, Calls>> };

let loads = 0;

/** `taskmaster load --verify` from four processes, until it is stopped. */
export class PodLoad implements AsyncDisposable {
  readonly #running: Running;
  readonly #report: Promise<LoadReport>;
  #calls = 0;

  /** `behind`: the words that run a command in the network of the users. Resolves when the load goes on. */
  static async start(
    behind: readonly string[],
    endpoint: string,
    env: Readonly<Record<string, string>> = {},
  ): Promise<PodLoad> {
    const own = [process.execPath, clientCli, 'load', '--endpoint', endpoint, '--group', `load${++loads}`, ...OPTIONS];
    const [command = '', ...args] = [...behind, ...own];
    const load = new PodLoad(await startProcess(command, args, { env: { ...process.env, ...env } }));
    await load.goOn();
    return load;
  }

  private constructor(running: Running) {
    this.#running = running;
    this.#report = this.#read();
    // `stop` and `goOn` report its rejection.
    this.#report.catch(() => {});
  }

  /** Resolves when more calls had success. */
  async goOn(): Promise<void> {
    const enough = this.#calls + ENOUGH;
    const ended = this.#report.then(() => {
      throw new Error('the load has ended');
    });
    const going = eventually(() => expect(this.#calls).toBeGreaterThan(enough), { withinMs: 120_000 });
    await Promise.race([going, ended]);
  }

  /** Ends the load and checks it. */
  async stop(): Promise<LoadReport> {
    this.#running.process.kill('SIGINT');
    return this.#report;
  }

  async #read(): Promise<LoadReport> {
    for await (const line of this.#running.lines()) {
      const told = JSON.parse(line) as Line;
      if (told.kind !== undefined) return told;
      for (const { count } of Object.values(told.calls)) this.#calls += count;
    }
    const { code, signal, stderr } = await this.#running.ended;
    throw new Error(`the load ended with ${code ?? signal}: ${stderr.trim()}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#running[Symbol.asyncDispose]();
  }
}

/** Fails if a call has failed although no group was without its node for longer than routers wait. */
export function expectNoFailures(report: LoadReport): void {
  const failures = Object.entries(failuresIn(report));
  const isAway = (report.longestPause?.ms ?? 0) > AWAY_MS;
  expect(failures.filter(([reason]) => !(isAway && WHILE_AWAY.has(reason)))).toEqual([]);
}

/** Failed calls of a load by their reason. */
function failuresIn({ total }: LoadReport): Readonly<Record<string, number>> {
  const found: Record<string, number> = {};
  for (const { errors } of Object.values(total.calls)) {
    for (const [reason, count] of Object.entries(errors)) found[reason] = (found[reason] ?? 0) + count;
  }
  return found;
}

/** One line about a load. */
export function summaryOf(report: LoadReport): string {
  const count = Object.values(report.total.calls).reduce((sum, calls) => sum + calls.count, 0);
  const shown = (counts: Readonly<Record<string, number>>): string =>
    Object.entries(counts)
      .map(([reason, times]) => `${times} ${reason}`)
      .join(', ') || '0';
  const [failed, retried] = [shown(failuresIn(report)), shown(report.total.retries)];
  const pause = `longest pause ${report.longestPause?.ms.toFixed(0) ?? 0} ms`;
  return `${count} calls in ${(report.elapsedMs / 1000).toFixed(1)} s, failed: ${failed}, repeated attempts: ${retried}, ${pause}`;
}
