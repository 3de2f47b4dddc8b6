import {
  connect,
  isTaskMasterError,
  type RetryEvent,
  type TaskMasterClient,
  type TlsOptions,
} from '@taskmaster/client';
import { type Command, Option } from 'commander';
import { endpoints as endpointsOf, lengthOfTime } from '../input/arguments.ts';
import { CommandFailedError } from '../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../views/exit-codes.ts';
import { duration } from '../views/format.ts';
import type { Shell } from '../views/output.ts';
import { unreachableHolders, unreachableText } from './unreachable-holder.ts';

/** A shell with a client. */
export interface Session extends Shell {
  readonly client: TaskMasterClient;
  /** Timeout of one call, in ms. */
  readonly timeoutMs: number;
  /** Connects to other endpoints, as to the first ones: with the same TLS and the same token. Rejects as `connect` does. */
  readonly connectTo: (endpoints: readonly string[], connectTimeoutMs: number) => Promise<TaskMasterClient>;
}

/** How a command reaches the nodes. */
export interface Reach {
  readonly endpoints: readonly string[];
  /** Undefined: any cluster. */
  readonly cluster: string | undefined;
  /** Timeout of one call, in ms. */
  readonly timeoutMs: number;
  /** Longest wait for the first connection, in ms. */
  readonly connectTimeoutMs: number;
  /** Undefined: plain text. */
  readonly tls: TlsOptions | undefined;
  /** Undefined: the environment has the token, or there is none. */
  readonly tokenFile: string | undefined;
  readonly insecure: boolean;
  readonly httpProxy: boolean;
}

interface GlobalFlags {
  readonly endpoint: readonly string[];
  readonly cluster?: string;
  readonly timeout: number;
  readonly connectTimeout: number;
  readonly tls?: boolean;
  readonly tlsCa?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly tlsServerName?: string;
  readonly tokenFile?: string;
  readonly insecure?: true;
  readonly httpProxy: boolean;
}

/** Runs commands and keeps their exit code. */
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

  /** For commands that connect by themselves. */
  get reach(): Reach {
    const flags = this.#program.opts<GlobalFlags>();
    const { endpoint, cluster, timeout, connectTimeout, tokenFile, insecure = false, httpProxy } = flags;
    const connectTimeoutMs = Math.min(timeout, connectTimeout);
    return {
      endpoints: endpoint,
      cluster,
      timeoutMs: timeout,
      connectTimeoutMs,
      tls: tlsOf(flags),
      tokenFile,
      insecure,
      httpProxy,
    };
  }

  /** Runs a command that needs no node, or connects by itself. Rejects with the error of the command. */
  async local(run: (shell: Shell) => Promise<ExitCode>): Promise<void> {
    this.#exitCode = await run(this.shell);
  }

  /**
   * Connects, runs the command and disconnects. @throws errors of `connect` and of the command.
   * @param queues of the command, for messages about their holders.
   * @param endpoints instead of those of the flags.
   */
  async connected(
    run: (session: Session) => Promise<ExitCode>,
    queues: readonly string[] = [],
    endpoints = this.reach.endpoints,
  ): Promise<void> {
    const { cluster, timeoutMs, connectTimeoutMs, tls, tokenFile, insecure, httpProxy } = this.reach;
    const { shell } = this;
    const options = { cluster, tls, timeout: timeoutMs, tokenFile, insecure, httpProxy };
    const connectTo: Session['connectTo'] = (others, connectTimeout) =>
      connect({ ...options, endpoints: others, connectTimeout }, { signal: shell.signal });
    const notice = new WaitNotice({ shell, queues, timeoutMs });
    const { onRetry } = notice;
    await using client = await connect(
      { ...options, endpoints, connectTimeout: connectTimeoutMs, onCallRetried: onRetry },
      { signal: shell.signal },
    );
    this.#exitCode = await notice.run(client, () => run({ ...shell, client, timeoutMs, connectTo }));
  }
}

/** Any of the flags asks for TLS. */
function tlsOf({ tls, tlsCa, tlsCert, tlsKey, tlsServerName }: GlobalFlags): TlsOptions | undefined {
  if (!tls && [tlsCa, tlsCert, tlsKey, tlsServerName].every((flag) => flag === undefined)) return undefined;
  return { caFile: tlsCa, certFile: tlsCert, keyFile: tlsKey, serverName: tlsServerName };
}

const DEFAULT_ENDPOINT = '127.0.0.1:7400';

/** Adds the options of all commands. `main` reads `--json` and `--debug` too, because it reports errors. */
export function addGlobalOptions(program: Command): void {
  program
    .addOption(
      new Option('-e, --endpoint <host:port,...>', 'nodes or proxies; calls go to those that are up')
        .env('TASKMASTER_ENDPOINTS')
        .argParser(endpointsOf)
        .default([DEFAULT_ENDPOINT], DEFAULT_ENDPOINT),
    )
    .addOption(
      new Option(
        '--cluster <id>',
        'id of the cluster; programs of another one get no calls (default: any, but not several)',
      ).env('TASKMASTER_CLUSTER'),
    )
    .addOption(
      new Option('--timeout <duration>', 'longest time for one request with its repetitions')
        .argParser(lengthOfTime)
        .default(10_000, '10s'),
    )
    .addOption(
      new Option('--connect-timeout <duration>', 'longest wait for the first connection')
        .argParser(lengthOfTime)
        .default(3_000, '3s'),
    )
    .option('--tls', 'connect with TLS; the certificates of nodes are signed by an authority that Node.js knows')
    .addOption(
      new Option(
        '--tls-ca <file>',
        'connect with TLS; file of the authorities that sign the certificates of nodes',
      ).env('TASKMASTER_TLS_CA'),
    )
    .addOption(new Option('--tls-cert <file>', 'file of the own certificate').env('TASKMASTER_TLS_CERT'))
    .addOption(new Option('--tls-key <file>', 'file of the key of the own certificate').env('TASKMASTER_TLS_KEY'))
    .addOption(
      new Option(
        '--tls-server-name <name>',
        'name in the certificates of nodes (default: the host of the endpoint)',
      ).env('TASKMASTER_TLS_SERVER_NAME'),
    )
    .option('--token-file <file>', 'file with a token or JWT (default: TASKMASTER_TOKEN or TASKMASTER_TOKEN_FILE)')
    .option('--insecure', 'send the token in plain text to other machines, too')
    .option('--no-http-proxy', 'connect directly, whatever http_proxy and its like say')
    .option('--json', 'for programs: print one JSON object per line; errors too, on stderr')
    .option('--debug', 'show stack traces of errors');
}

/** After this time a command on a terminal says which node it waits for, in ms. */
const NOTICE_AFTER_MS = 1_000;

interface WaitNoticeParts {
  readonly shell: Shell;
  /** The queues of the command. None: there is no notice. */
  readonly queues: readonly string[];
  /** Timeout of one call, in ms. */
  readonly timeoutMs: number;
}

/** Says once on a terminal which node a command waits for, and names the nodes that did not answer in the final error. */
class WaitNotice {
  readonly #parts: WaitNoticeParts;
  #client: TaskMasterClient | undefined;
  #isPrinted = false;

  constructor(parts: WaitNoticeParts) {
    this.#parts = parts;
  }

  /** Hook for a call that failed and will be repeated. */
  readonly onRetry = ({ error, elapsedMs }: RetryEvent): void => {
    const { shell, queues, timeoutMs } = this.#parts;
    const client = this.#client;
    const isShown = shell.err.isTerminal && !shell.out.json && queues.length > 0;
    if (this.#isPrinted || !isShown || client === undefined || elapsedMs < NOTICE_AFTER_MS) return;
    this.#isPrinted = true;
    void unreachableHolders(client, error, queues).then((holders) => {
      const why = holders.length > 0 ? unreachableText(holders) : error.message;
      shell.err.line(`${why}; retrying for ${duration(timeoutMs)}`);
    });
  };

  /** Runs a command with this client. @throws its errors; an error about a holder that does not answer names the holder. */
  async run<T>(client: TaskMasterClient, command: () => Promise<T>): Promise<T> {
    this.#client = client;
    try {
      return await command();
    } catch (cause) {
      if (!isTaskMasterError(cause) || this.#parts.shell.signal.aborted) throw cause;
      const holders = await unreachableHolders(client, cause, this.#parts.queues);
      if (holders.length === 0) throw cause;
      const { gaveUpAfterMs } = cause;
      const gaveUp = gaveUpAfterMs === undefined ? '' : `; gave up after ${duration(gaveUpAfterMs)}`;
      const hint = 'restart the node: its tasks wait for it';
      const details = { hint, exitCode: exitCodes.unreachable, cause };
      throw new CommandFailedError(cause.reason, `${unreachableText(holders)}${gaveUp}`, details);
    }
  }
}
