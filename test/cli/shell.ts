import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { connect, type TaskMasterClient } from '@taskmaster/client';
import { clientCli } from '../support/paths.ts';
import { type Ended, type Running, startProcess } from '../support/processes/child-process.ts';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../support/temporary-directory.ts';

/** Environment variables of the test machine that a user's shell does not have. */
const NOT_INHERITED =
  /^(TASKMASTER_|VITEST|NODE_OPTIONS$|(NO|FORCE)_COLOR$|CLICOLOR|COLORTERM$|NODE_DISABLE_COLORS$|TERM$|TERM_PROGRAM|TMUX$|CI$|TEAMCITY_VERSION$)/;

/** A user's shell with its own directory, `taskmaster` on its path, and the address of a node. */
export interface UserShell extends AsyncDisposable {
  readonly dir: string;
  readonly env: NodeJS.ProcessEnv;
  /** Runs a command line of the shell. `input`: its standard input. Default: none. */
  run(line: string, env?: Readonly<Record<string, string>>, input?: string): Promise<Ended>;
  /** Starts `taskmaster` alone. */
  start(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Running>;
}

/** Opens a shell. `endpoint`: address of the node that its commands use. */
export async function openShell(endpoint: string): Promise<UserShell> {
  const home: TemporaryDirectory = await temporaryDirectory();
  const bin = join(home.path, 'bin');
  const dir = join(home.path, 'work');
  await mkdir(bin);
  await mkdir(dir);
  const command = join(bin, 'taskmaster');
  await writeFile(command, `#!/bin/sh\nexec '${process.execPath}' '${clientCli}' "$@"\n`);
  await chmod(command, 0o755);
  const inherited = Object.entries(process.env).filter(([name]) => !NOT_INHERITED.test(name));
  const userEnv = {
    ...Object.fromEntries(inherited),
    PATH: `${bin}${delimiter}${process.env.PATH}`,
    TASKMASTER_ENDPOINTS: endpoint,
  };
  return {
    dir,
    env: userEnv,
    async run(line, env = {}, input = '') {
      await using shell = await startProcess('bash', ['-c', line], { cwd: dir, env: { ...userEnv, ...env } });
      shell.process.stdin?.end(input);
      return await shell.ended;
    },
    start: (args, env = {}) =>
      startProcess(process.execPath, [clientCli, ...args], { cwd: dir, env: { ...userEnv, ...env } }),
    [Symbol.asyncDispose]: () => home[Symbol.asyncDispose](),
  };
}

/** A node with a client and a shell. */
export interface NodeUser extends AsyncDisposable {
  readonly node: RunningNode;
  readonly client: TaskMasterClient;
  readonly shell: UserShell;
}

export async function openNodeUser(): Promise<NodeUser> {
  await using opening = new AsyncDisposableStack();
  const node = opening.use(await startNode());
  const client = opening.use(await connect(node.endpoint));
  const shell = opening.use(await openShell(node.endpoint));
  const opened = opening.move();
  return { node, client, shell, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}
