import {
  boundMemory,
  configAsYaml,
  configOf,
  type Flags,
  type MemoryBounds,
  runProgram,
  withSettings,
} from '@taskmaster/server/program';
import { Command } from 'commander';
import { proxySettings } from '../config.ts';

/**
 * What a proxy passes on is in memory outside V8's heap, which itself has little in it: to V8 the messages of a moment are
 * half as much again as all there was, and a reason to collect everything, ten times a second. So it collects what is young
 * more often, which frees most of them, and may let the rest grow.
 */
const PROXY_BOUNDS: MemoryBounds = { youngMib: 4, oldGrowthPercent: 300 };

/** Runs a command line. Resolves with the exit code: 0 done, 1 failed, 2 the command line or the settings are wrong. */
export function run(args: readonly string[], version: string): Promise<number> {
  return runProgram(args, (ended) => createProgram(version, ended));
}

/** The commands of a proxy. */
export function createProgram(version: string, ended: (code: number) => void): Command {
  const program = new Command('taskmaster-proxy')
    .description('A proxy of TaskMaster: one address for all nodes of a cluster.')
    .version(version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show this help')
    .exitOverride()
    .addHelpText('after', '\n"taskmaster-proxy serve --help" shows every setting.')
    .showHelpAfterError('(--help shows what there is)');

  withSettings(program.command('serve', { isDefault: true }), proxySettings)
    .description('Run a proxy until SIGTERM, SIGINT or SIGHUP. This is the default command.')
    .option('--json', 'say that the proxy is ready in one line of JSON')
    .action(async (options: Flags) => {
      const config = configOf(proxySettings, options);
      boundMemory(PROXY_BOUNDS);
      // Help and complaints about settings come at once, without loading a server first.
      const { serve } = await import('./serve.ts');
      ended(await serve({ config, json: options.json === true }));
    });

  const config = program.command('config').description('Look at settings.');
  withSettings(config.command('print'), proxySettings)
    .description('Print the settings as a proxy would have them, as a file that explains them.')
    .option('--json', 'print JSON')
    .action((options: Flags) => {
      const decided = configOf(proxySettings, options);
      process.stdout.write(
        options.json ? `${JSON.stringify(decided, undefined, 2)}\n` : configAsYaml(proxySettings, decided),
      );
    });
  return program;
}
