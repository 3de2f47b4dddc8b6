import { bytesCodec, UnavailableError } from '@taskmaster/client';
import type { Log, RunningNode } from '@taskmaster/node';
import type { Command } from 'commander';
import { wholeNumber } from '../../input/arguments.ts';
import type { Reach, Runner, Session } from '../../session/session.ts';
import { UsageError } from '../../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../../views/exit-codes.ts';
import { notesOf } from '../../views/help.ts';
import type { Shell } from '../../views/output.ts';
import { Board, type Row } from './board.ts';
import { BoardScreen } from './board-screen.ts';
import { portTaken, startUnlessThere } from './dev-node.ts';
import { EventLines } from './event-lines.ts';
import { followAll, MOST_GROUPS } from './follow-all.ts';
import type { About, View } from './view.ts';

const notes = `
Clients need no settings: the node is at their default address. A second taskmaster dev finds the first one and only watches.
On a terminal the arrow keys choose a failed task or a dead letter, r retries it now, d drops it, and q ends, as Ctrl-C does.
Elsewhere each event is a line. The node needs the package @taskmaster/node beside this one.

Examples:
  $ taskmaster dev
  $ taskmaster dev --data ./dev-data
  $ taskmaster dev --endpoint 127.0.0.1:7500 | tee events.txt`;

interface DevFlags {
  readonly data?: string;
  readonly httpPort?: number;
}

export function addDev(program: Command, runner: Runner): void {
  program
    .command('dev')
    .summary('run a node for development, and watch its tasks')
    .description('Runs a node for development in this process, and shows tasks as they come and go, until Ctrl-C.')
    .option('--data <dir>', 'directory of the data (default: in memory, which ends with this process)')
    .option(
      '--http-port <port>',
      'port of HTTP and the console (default: the one after that of --endpoint)',
      wholeNumber(0, 65_535),
    )
    .addHelpText('after', notesOf(notes))
    .action((flags: DevFlags) => {
      const place = placeOf(runner.reach);
      return runner.local((shell) => dev(runner, shell, place, flags));
    });
}

interface Place {
  readonly host: string;
  readonly port: number;
}

const loopback: ReadonlySet<string> = new Set(['127.0.0.1', 'localhost', '::1']);

/** Where the node is. @throws UsageError if that is another machine, whose tasks are nothing to try keys on. */
function placeOf({ endpoints, tls }: Reach): Place {
  const [endpoint = ''] = endpoints;
  const at = endpoint.lastIndexOf(':');
  const host = endpoint.slice(0, at).replace(/^\[|\]$/g, '');
  if (endpoints.length > 1 || !loopback.has(host)) {
    throw new UsageError(`dev is for this machine: --endpoint must be one address such as 127.0.0.1:7400`);
  }
  if (tls !== undefined) throw new UsageError('dev runs a node without TLS');
  return { host, port: Number(endpoint.slice(at + 1)) };
}

async function dev(runner: Runner, shell: Shell, { host, port }: Place, flags: DevFlags): Promise<ExitCode> {
  const { signal } = shell;
  const httpPort = flags.httpPort ?? (port === 0 ? 0 : port + 1);
  const told = new ToldByNode((text) => shell.err.line(text));
  const options = { host, grpcPort: port, httpPort, dataDir: flags.data, log: told, signal };
  await using node = await startUnlessThere(options);
  const about = node === undefined ? await aboutOther({ host, port }, httpPort) : aboutOwn(node, flags.data);
  try {
    await runner.connected((session) => watch(session, about, told), [], [about.address]);
  } catch (error) {
    if (node === undefined && error instanceof UnavailableError) throw portTaken(host, 'grpc', port);
    // Ctrl-C is how it ends.
    if (!signal.aborted) throw error;
  }
  return exitCodes.ok;
}

/** The warnings and errors of the node, without their details. */
class ToldByNode implements Log {
  show: (text: string) => void;

  constructor(show: (text: string) => void) {
    this.show = show;
  }

  debug(): void {}

  info(): void {}

  warn(_details: object, message: string): void {
    this.show(message);
  }

  error(_details: object, message: string): void {
    this.show(message);
  }
}

const consoleAt = (address: string): string => `http://${address}/console/`;

function aboutOwn({ grpcAddress, httpAddress }: RunningNode, dataDir: string | undefined): About {
  const data = dataDir === undefined ? 'in memory, which ends with this process' : `in ${dataDir}`;
  return { address: grpcAddress, data, console: consoleAt(httpAddress) };
}

const CONSOLE_WITHIN_MS = 500;

/** What is known of a node that another process runs. */
async function aboutOther({ host, port }: Place, httpPort: number): Promise<About> {
  const authority = host.includes(':') ? `[${host}]` : host;
  const page = consoleAt(`${authority}:${httpPort}`);
  const isThere = await fetch(page, { signal: AbortSignal.timeout(CONSOLE_WITHIN_MS) }).then(
    ({ ok }) => ok,
    () => false,
  );
  return { address: `${authority}:${port}`, data: 'of another process', console: isThere ? page : undefined };
}

/** Shows what happens at the node, until a key or the signal ends it. */
async function watch(session: Session, about: About, told: ToldByNode): Promise<ExitCode> {
  const { client, out } = session;
  const quit = new AbortController();
  const signal = AbortSignal.any([session.signal, out.closed, quit.signal]);
  const board = new Board();
  const isInteractive = out.isTerminal && !out.json && session.stdin.isTTY === true;
  using screen = isInteractive ? new BoardScreen(session, board, about, () => quit.abort()) : undefined;
  const view: View = screen ?? new EventLines(session, about);
  const { show } = told;
  told.show = (text) => view.notice(text);
  const explain = async (row: Row): Promise<void> => {
    const [task] = await client.queue(row.queue, { codec: bytesCodec }).get([row.pid], { signal });
    if (task !== undefined) board.explain(row, task);
  };
  try {
    return await followAll(
      client,
      {
        onEvent: async (event) => {
          const row = board.apply(event);
          if (row?.state === 'failed' || row?.state === 'dead') await explain(row);
          await view.event(event, row);
        },
        onTask: (task) => board.add(task),
        onQueues: (queues, left) => {
          const sumOf = (field: 'available' | 'delayed' | 'waiting' | 'leased'): number =>
            queues.reduce((sum, queue) => sum + queue[field], 0);
          view.totals(sumOf('available') + sumOf('delayed') + sumOf('waiting'), sumOf('leased'));
          if (left > 0) view.notice(`${left} groups are not followed: more than ${MOST_GROUPS} hold tasks`);
        },
        onProblem: (problem) => view.notice(problem && `no node answers (${problem}): start taskmaster dev again`),
      },
      signal,
    );
  } catch (error) {
    if (signal.aborted) return exitCodes.ok;
    throw error;
  } finally {
    told.show = show;
  }
}
