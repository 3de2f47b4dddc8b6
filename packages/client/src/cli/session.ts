import { type Command, Option } from 'commander';
import type { TaskMasterClient } from '../api/client.ts';
import { connect } from '../api/connect.ts';
import { endpoints, lengthOfTime } from './input/arguments.ts';
import type { ExitCode } from './output/exit-codes.ts';
import { Patience } from './patience.ts';
import type { Shell } from './shell.ts';

/** What a command works with. */
export interface Session extends Shell {
  readonly client: TaskMasterClient;
  /** Longest time of one call, in ms. */
  readonly timeoutMs: number;
}

interface GlobalFlags {
  readonly endpoint: readonly string[];
  readonly timeout: number;
  readonly connectTimeout: number;
}

/** Runs what commands do, and keeps how they ended. */
export class Runner {
  readonly shell: Shell;
  readonly #program: Command;
  #exitCode: ExitCode = 0;

  constructor(program: Command, shell: Shell) {
    this.#program = program;
    this.shell = shell;
  }

  get exitCode(): ExitCode {
    return this.#exitCode;
  }

  /**
   * Connects, runs, disconnects. @throws whatever `connect` and the command throw.
   * @param queues what the command is about, where it is about certain queues.
   */
  async connected(run: (session: Session) => Promise<ExitCode>, queues: readonly string[] = []): Promise<void> {
    const { endpoint, timeout, connectTimeout } = this.#program.opts<GlobalFlags>();
    const { shell } = this;
    const patience = new Patience({ shell, queues, timeoutMs: timeout });
    const { onRetry } = patience;
    await using client = await connect(
      { endpoints: endpoint, timeout, connectTimeout: Math.min(timeout, connectTimeout), onCallRetried: onRetry },
      { signal: shell.signal },
    );
    this.#exitCode = await patience.run(client, () => run({ ...shell, client, timeoutMs: timeout }));
  }
}

const DEFAULT_ENDPOINT = '127.0.0.1:7400';

/** Options of every command. `--json` and `--debug` are read where errors are reported, too. */
export function addGlobalOptions(program: Command): void {
  program
    .addOption(
      new Option('-e, --endpoint <host:port,...>', 'nodes or proxies; any that is up is used')
        .env('TASKMASTER_ENDPOINTS')
        .argParser(endpoints)
        .default([DEFAULT_ENDPOINT], DEFAULT_ENDPOINT),
    )
    .addOption(
      new Option('--timeout <duration>', 'longest time for one request, repetitions included')
        .argParser(lengthOfTime)
        .default(10_000, '10s'),
    )
    .addOption(
      new Option('--connect-timeout <duration>', 'longest wait for the first endpoint')
        .argParser(lengthOfTime)
        .default(3_000, '3s'),
    )
    .option('--json', 'for programs: one JSON object a line, errors too (on stderr)')
    .option('--debug', 'show stack traces of errors');
}
