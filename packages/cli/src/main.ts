import { logVerbosity, setLogVerbosity } from '@grpc/grpc-js';
import { Command, CommanderError } from 'commander';
import { addAccess } from './commands/access.ts';
import { addBackup } from './commands/backup.ts';
import { addBulk } from './commands/bulk.ts';
import { addCancel } from './commands/cancel.ts';
import { addMembers } from './commands/cluster/members.ts';
import { addPartitions } from './commands/cluster/partitions.ts';
import { addCompletion } from './commands/completion.ts';
import { addDev } from './commands/dev/dev.ts';
import { addEnqueue } from './commands/enqueue.ts';
import { addEvents } from './commands/events.ts';
import { addFlow } from './commands/flow.ts';
import { addInspection } from './commands/inspect.ts';
import { addLease } from './commands/lease.ts';
import { addLoad } from './commands/load/load.ts';
import { addOutbox } from './commands/outbox.ts';
import { addAdministration } from './commands/queues/administer.ts';
import { addDead } from './commands/queues/dead.ts';
import { addQueues } from './commands/queues/queues.ts';
import { addSettings } from './commands/queues/settings.ts';
import { addWatch } from './commands/queues/watch.ts';
import { addReschedule } from './commands/reschedule.ts';
import { addSchedule } from './commands/schedule/schedule.ts';
import { addSettling } from './commands/settle.ts';
import { addSignal, addSignals } from './commands/signal.ts';
import { addTopic } from './commands/topic.ts';
import { addWait } from './commands/wait.ts';
import { addGlobalOptions, Runner } from './session/session.ts';
import { version } from './session/version.ts';
import { InterruptedError, UsageError } from './views/cli-errors.ts';
import { type EndingSignal, type ExitCode, exitCodes, exitCodesHelp, signalExitCodes } from './views/exit-codes.ts';
import { helpWidth, notesOf } from './views/help.ts';
import type { Shell } from './views/output.ts';
import { Messages, Output } from './views/output.ts';
import { reportError } from './views/report-error.ts';

const intro = 'Enqueues, leases and completes tasks of a TaskMaster node or cluster, and shows its queues and members.';

const notes = `
A queue is written group#name, or name in the default group. PIDs and data are text. Other bytes are written hex:... or
base64:..., in output as in arguments. Durations are written 250ms, 1.5s, 5m, 2h or 7d.

Examples:
  $ taskmaster enqueue shop#mail '{"to":"ann@example.com"}'
  $ taskmaster lease shop#mail --lease-duration 1m
  $ taskmaster complete shop#mail 0006406f3a1c2b40 --lease-token 1
  $ taskmaster watch --group shop

${exitCodesHelp}

Environment:
  TASKMASTER_ENDPOINTS  default of --endpoint
  TASKMASTER_CLUSTER    default of --cluster
  TASKMASTER_TLS_CA     default of --tls-ca; TASKMASTER_TLS_CERT, TASKMASTER_TLS_KEY and
                        TASKMASTER_TLS_SERVER_NAME likewise
  TASKMASTER_TOKEN      token or JWT that proves who you are
  TASKMASTER_TOKEN_FILE file with the token, default of --token-file
  http_proxy            proxy to other machines, unless no_proxy or --no-http-proxy; https_proxy and
                        grpc_proxy likewise
  NO_COLOR              turns colours off`;

/** Runs the command line and reports errors. Returns the exit code. */
export async function main(args: readonly string[]): Promise<ExitCode> {
  // Read first, because errors of the arguments are JSON too.
  const json = hasFlag(args, '--json');
  const interrupt = new AbortController();
  const shell: Shell = {
    stdin: process.stdin,
    out: new Output(process.stdout, { json }),
    err: new Messages(process.stderr),
    signal: interrupt.signal,
  };
  // The error of the command says it once. gRPC would write a line for each attempt to connect.
  if (process.env.GRPC_VERBOSITY === undefined) setLogVerbosity(logVerbosity.NONE);
  // Messages to a closed terminal are lost. The command still finishes.
  process.stderr.on('error', () => {});
  for (const name of Object.keys(signalExitCodes) as EndingSignal[]) {
    process.on(name, () => {
      // A second signal ends the process at once. SIGHUP does not, because a terminal and its shell may both send it.
      if (interrupt.signal.aborted && name !== 'SIGHUP') process.exit(signalExitCodes[name]);
      interrupt.abort(new InterruptedError(name));
    });
  }
  // Node.js has decoded the arguments, and invalid bytes of all kinds became this character.
  const broken = args.find((arg) => arg.includes('\ufffd'));
  if (broken !== undefined) {
    const hint = 'write PIDs and data with such bytes as hex:... or base64:..., or use a file';
    return reported(shell, args, new UsageError(`the argument ${broken} has bytes that are not UTF-8; ${hint}`));
  }
  const code = await mainIn(shell, args);
  try {
    await shell.out.flush();
  } catch (error) {
    return reported(shell, args, error);
  }
  return code;
}

/** `main` with a given shell. */
export async function mainIn(shell: Shell, args: readonly string[]): Promise<ExitCode> {
  try {
    return await run(args, shell);
  } catch (error) {
    return reported(shell, args, shell.signal.aborted ? shell.signal.reason : error);
  }
}

const reported = ({ err, out }: Shell, args: readonly string[], error: unknown): ExitCode =>
  reportError(error, err, { json: out.json, debug: hasFlag(args, '--debug') });

async function run(args: readonly string[], shell: Shell): Promise<ExitCode> {
  const { program, runner } = createProgram((made) => new Runner(made, shell));
  if (args.length === 0) {
    program.outputHelp({ error: true });
    return exitCodes.usage;
  }
  try {
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    // Commander has printed help or the version.
    if (error instanceof CommanderError && error.exitCode === 0) return exitCodes.ok;
    throw error;
  }
  return runner.exitCode;
}

/** The commands and their runner. */
export function createProgram(runnerOf: (program: Command) => Runner): { program: Command; runner: Runner } {
  const program = new Command('taskmaster')
    .description(intro)
    .version(version(), '-V, --version', 'show the version')
    .helpOption('-h, --help', 'show help')
    .addHelpText('after', notesOf(notes))
    .configureHelp({ showGlobalOptions: true })
    // Errors are thrown. `mainIn` prints them.
    .configureOutput({
      outputError: () => undefined,
      getOutHelpWidth: () => helpWidth(process.stdout),
      getErrHelpWidth: () => helpWidth(process.stderr),
    })
    .exitOverride();
  addGlobalOptions(program);
  const runner = runnerOf(program);
  addCommands(program, runner);
  return { program, runner };
}

function addCommands(program: Command, runner: Runner): void {
  program.commandsGroup('Tasks:');
  addEnqueue(program, runner);
  addLease(program, runner);
  addSettling(program, runner);
  addReschedule(program, runner);
  addCancel(program, runner);
  addSignal(program, runner);
  addSignals(program, runner);
  addFlow(program, runner);
  addWait(program, runner);
  addInspection(program, runner);
  program.commandsGroup('Queues:');
  addQueues(program, runner);
  addWatch(program, runner);
  addEvents(program, runner);
  addDead(program, runner);
  addBulk(program, runner);
  addTopic(program, runner);
  addOutbox(program, runner);
  addSettings(program, runner);
  addSchedule(program, runner);
  addAdministration(program, runner);
  program.commandsGroup('Cluster:');
  addMembers(program, runner);
  addPartitions(program, runner);
  addBackup(program, runner);
  addLoad(program, runner);
  program.commandsGroup('Other:');
  addDev(program, runner);
  addAccess(program, runner);
  addCompletion(program, runner);
  program.helpCommand('help [command]', 'show help of a command');
}

function hasFlag(args: readonly string[], flag: string): boolean {
  const end = args.indexOf('--');
  return (end < 0 ? args : args.slice(0, end)).includes(flag);
}
