import { configOf, type Flags, runProgram, withConfigCommands, withSettings } from '@taskmaster/server/program';
import { Command } from 'commander';
import { proxySettings } from '../config.ts';

/** Runs a command line. Resolves with the exit code: 0 done, 1 failed, 2 the command line or the settings are wrong. */
export function run(args: readonly string[], version: string): Promise<number> {
  return runProgram(args, (ended) => createProgram(version, ended));
}

/** The commands of a proxy. */
export function createProgram(version: string, ended: (code: number) => void): Command {
  const program = new Command('taskmaster-proxy')
    .description('A proxy of TaskMaster: one address for all nodes of a cluster.')
    .version(version, '-V, --version', 'show the version')
    .helpOption('-h, --help', 'show help')
    .exitOverride()
    .addHelpText('after', '\n"taskmaster-proxy serve --help" shows every setting.')
    .showHelpAfterError('(--help shows all commands and options)');

  withSettings(program.command('serve', { isDefault: true }), proxySettings)
    .description('Run a proxy until SIGTERM, SIGINT or SIGHUP. This is the default command.')
    .option('--json', 'print one line of JSON when the proxy is ready')
    .action(async (options: Flags) => {
      const config = configOf(proxySettings, options);
      // Loaded here, so that help and errors of settings appear immediately.
      const { serve } = await import('./serve.ts');
      ended(await serve({ config, json: options.json === true }));
    });

  withConfigCommands(program, proxySettings);
  return program;
}
