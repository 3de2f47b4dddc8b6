import type { Command } from 'commander';
import { readClusterKeys } from './cluster-keys.ts';
import { configAsYaml } from './print-config.ts';
import { configOf, type Flags, withSettings } from './setting-flags.ts';
import { type SettingsTable, valueAt } from './settings.ts';

/** The settings that programs with gossip have. */
interface ClusteredConfig {
  readonly cluster: { readonly keyFile: string };
}

/** Adds the commands `config print` and `config check`. Settings hold no secrets, only paths of files that do. */
export function withConfigCommands<C extends ClusteredConfig>(program: Command, table: SettingsTable<C>): void {
  const config = program.command('config').description('Show and check settings.');
  const whose = table.whose.replace(/^an? /, 'the ');
  withSettings(config.command('print'), table)
    .description(`Print the settings of ${whose}, as a file with descriptions.`)
    .option('--json', 'print JSON')
    .action((options: Flags) => {
      const decided = configOf(table, options);
      process.stdout.write(options.json ? `${JSON.stringify(decided, undefined, 2)}\n` : configAsYaml(table, decided));
    });
  withSettings(config.command('check'), table)
    .description(
      `Check the settings of ${whose} and the files that they name, without a start. Exit code 2: wrong settings.`,
    )
    .action((options: Flags) => {
      const decided = configOf(table, options);
      readClusterKeys(decided.cluster.keyFile);
      process.stdout.write(`The settings are valid.\n${changesOf(table, decided)}`);
    });
}

/** The settings that differ from their defaults, one per line. */
function changesOf<C>(table: SettingsTable<C>, config: C): string {
  return table.all
    .map((setting) => ({ ...setting, value: JSON.stringify(valueAt(config, setting.path)) }))
    .filter(({ value, default: byDefault }) => value !== JSON.stringify(byDefault))
    .map(({ name, value, default: byDefault }) => `  ${name}: ${value} (default: ${JSON.stringify(byDefault)})\n`)
    .join('');
}
