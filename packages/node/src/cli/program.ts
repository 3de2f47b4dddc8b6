import { Command, CommanderError, Option } from 'commander';
import { InvalidConfig, type NodeConfig } from '../config.ts';
import { loadConfig } from './load-config.ts';
import { configAsYaml } from './print-config.ts';
import { type Setting, settings } from './settings.ts';

const USAGE_ERROR = 2;

/** Runs a command line. Resolves with the exit code: 0 done, 1 failed, 2 the command line or the settings are wrong. */
export async function run(args: readonly string[], version: string): Promise<number> {
  let code = 0;
  const program = createProgram(version, (ended) => {
    code = ended;
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return code;
  } catch (error) {
    // Help and version are errors to commander too; they have been printed.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USAGE_ERROR;
    if (!(error instanceof InvalidConfig)) throw error;
    for (const problem of error.problems) process.stderr.write(`taskmaster-node: ${problem}\n`);
    return USAGE_ERROR;
  }
}

function createProgram(version: string, ended: (code: number) => void): Command {
  const program = new Command('taskmaster-node')
    .description('A node of TaskMaster: a durable, priority-ordered task queue.')
    .version(version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show this help')
    .exitOverride()
    .addHelpText('after', '\n"taskmaster-node serve --help" shows every setting.')
    .showHelpAfterError('(--help shows what there is)');

  withSettings(program.command('serve', { isDefault: true }))
    .description('Run a node until SIGTERM, SIGINT or SIGHUP. This is the default command.')
    .option('--json', 'say that the node is ready in one line of JSON')
    .action(async (options: Flags) => {
      const config = configOf(options);
      // Help and complaints about settings come at once, without loading a server and a database first.
      const { serve } = await import('./serve.ts');
      ended(await serve({ config, json: options.json === true }));
    });

  const config = program.command('config').description('Look at settings.');
  withSettings(config.command('print'))
    .description('Print the settings as a node would have them, as a file that explains them.')
    .option('--json', 'print JSON')
    .action((options: Flags) => {
      const decided = configOf(options);
      process.stdout.write(options.json ? `${JSON.stringify(decided, undefined, 2)}\n` : configAsYaml(decided));
    });
  return program;
}

/** Options as commander gives them: the flags of settings under their names. */
type Flags = Readonly<Record<string, unknown>>;

const sections: Readonly<Record<string, string>> = {
  engine: 'Engine:',
  store: 'Store:',
  grpc: 'gRPC:',
  http: 'HTTP:',
};

function withSettings(command: Command): Command {
  command.option('--config <file>', 'YAML file of settings; the environment and flags win over it');
  for (const setting of settings) command.addOption(optionOf(setting));
  return command.addHelpText(
    'after',
    `
Every setting is also a line of the file and a variable of the environment: --engine-cache-bytes is engine.cacheBytes
and TASKMASTER_ENGINE_CACHE_BYTES. "taskmaster-node config print" writes a file of all of them.`,
  );
}

function optionOf({ flag, name, path, about, default: byDefault }: Setting): Option {
  const [section] = path;
  const value = typeof byDefault === 'boolean' ? '<true|false>' : typeof byDefault === 'number' ? '<number>' : '<text>';
  const option = new Option(`${flag} ${value}`, `${about} Default: ${byDefault}.`);
  option.attributeName = () => name;
  return option.helpGroup((path.length > 1 && section !== undefined && sections[section]) || 'Settings:');
}

function configOf(options: Flags): NodeConfig {
  const flags = new Map<string, string>();
  for (const { name } of settings) {
    const value = options[name];
    if (typeof value === 'string') flags.set(name, value);
  }
  return loadConfig({ file: typeof options.config === 'string' ? options.config : undefined, env: process.env, flags });
}
