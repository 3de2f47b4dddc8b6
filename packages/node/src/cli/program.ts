import {
  boundMemory,
  configAsYaml,
  configOf,
  type Flags,
  NODE_BOUNDS,
  runProgram,
  withSettings,
} from '@taskmaster/server/program';
import { Command } from 'commander';
import { nodeSettings } from './node-settings.ts';

/** Runs the command line of a node. Resolves with the exit code: 0 done, 1 failed, 2 the command line or the settings are wrong. */
export function run(args: readonly string[], version: string): Promise<number> {
  return runProgram(args, (ended) => createProgram(version, ended));
}

/** The commands of a node. */
export function createProgram(version: string, ended: (code: number) => void): Command {
  const program = new Command('taskmaster-node')
    .description('A node of TaskMaster: a durable, priority-ordered task queue.')
    .version(version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show this help')
    .exitOverride()
    .addHelpText('after', '\n"taskmaster-node serve --help" shows every setting.')
    .showHelpAfterError('(--help shows what there is)');

  withSettings(program.command('serve', { isDefault: true }), nodeSettings)
    .description('Run a node until SIGTERM, SIGINT or SIGHUP. This is the default command.')
    .option('--json', 'say that the node is ready in one line of JSON')
    .action(async (options: Flags) => {
      const config = configOf(nodeSettings, options);
      boundMemory(NODE_BOUNDS);
      // Help and complaints about settings come at once, without loading a server and a database first.
      const { serve } = await import('./serve.ts');
      ended(await serve({ config, json: options.json === true }));
    });

  const config = program.command('config').description('Look at settings.');
  withSettings(config.command('print'), nodeSettings)
    .description('Print the settings as a node would have them, as a file that explains them.')
    .option('--json', 'print JSON')
    .action((options: Flags) => {
      const decided = configOf(nodeSettings, options);
      process.stdout.write(
        options.json ? `${JSON.stringify(decided, undefined, 2)}\n` : configAsYaml(nodeSettings, decided),
      );
    });
  return program;
}
