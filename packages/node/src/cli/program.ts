import {
  configOf,
  type Flags,
  runProgram,
  type SettingsTable,
  settingsTable,
  withConfigCommands,
  withSettings,
} from '@taskmaster/server/program';
import { Command } from 'commander';
import { configSchema, divideNodeMemory, type NodeSettings } from '../config.ts';

/** Runs the command line of a node. Resolves with the exit code: 0 success, 1 failure, 2 invalid command line or settings. */
export function run(args: readonly string[], version: string): Promise<number> {
  return runProgram(args, (ended) => createProgram(version, ended));
}

/** The commands of a node. */
export function createProgram(version: string, ended: (code: number) => void): Command {
  const program = new Command('taskmaster-node')
    .description('A node of TaskMaster: a durable, priority-ordered task queue.')
    .version(version, '-V, --version', 'show the version')
    .helpOption('-h, --help', 'show help')
    .exitOverride()
    .addHelpText('after', '\n"taskmaster-node serve --help" shows every setting.')
    .showHelpAfterError('(--help shows all commands and options)');

  withSettings(program.command('serve', { isDefault: true }), nodeSettings)
    .description('Run a node until SIGTERM, SIGINT or SIGHUP. This is the default command.')
    .option('--json', 'print one line of JSON when the node is ready')
    .action(async (options: Flags) => {
      const config = configOf(nodeSettings, options);
      // Loaded here, so that help and errors of settings appear immediately.
      const { serve } = await import('./serve.ts');
      ended(await serve({ config, json: options.json === true }));
    });

  withSettings(program.command('restore'), nodeSettings)
    .description('Restore a backup into an empty data directory, or into a database without data (--store).')
    .requiredOption('--from <place>', 'the backup: a directory, s3://bucket/prefix, or - for a tar stream on stdin')
    .option('--json', 'print one line of JSON when the backup is restored')
    .action(async (options: Flags & { readonly from: string }) => {
      const { from, json, ...flags } = options;
      const config = configOf(nodeSettings, flags);
      const { restore } = await import('./restore.ts');
      ended(await restore({ config, from, json: json === true }));
    });

  withSettings(program.command('accept-loss'), nodeSettings)
    .description('Let a node serve its database (--store) again, which has lost acknowledged work.')
    .argument('<name>', 'the name of the node, as its log has it')
    .action(async (name: string, options: Flags) => {
      const config = configOf(nodeSettings, options);
      const { acceptLoss } = await import('./accept-loss.ts');
      ended(await acceptLoss({ config, name }));
    });

  withConfigCommands(program, nodeSettings);
  return program;
}

/** The settings of a node. */
export const nodeSettings: SettingsTable<NodeSettings> = settingsTable(configSchema, 'a TaskMaster node', (settings) =>
  divideNodeMemory(settings),
);
