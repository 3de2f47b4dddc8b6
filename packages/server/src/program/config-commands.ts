import type { Command } from 'commander';
import { readClusterKeys } from './cluster-keys.ts';
import { InvalidConfigError } from './config-sections.ts';
import { checkAccess } from './configured-access.ts';
import { assertSecure, type ExposureSettings, exposureOf } from './exposure.ts';
import type { MemoryDivision } from './memory/divide-memory.ts';
import { memoryLines } from './memory/report-memory.ts';
import { checkTlsFiles } from './open-tls.ts';
import { configOf, type Flags, withSettings } from './setting-flags.ts';
import { isRecord, type SettingsTable, valueAt } from './settings.ts';
import { withoutPasswords } from './without-passwords.ts';
import { writeOutput } from './write-output.ts';

/** Adds the commands `config print` and `config check`. Settings hold no secrets but passwords in URLs, which are not shown. */
export function withConfigCommands<C extends ExposureSettings>(program: Command, table: SettingsTable<C>): void {
  const config = program.command('config').description('Show and check settings.');
  const whose = table.whose.replace(/^an? /, 'the ');
  withSettings(config.command('print'), table)
    .description(`Print the settings of ${whose}, as a file with descriptions.`)
    .option('--json', 'print JSON, with the sizes in effect instead of auto')
    .action(async (options: Flags) => {
      const decided = configOf(table, options);
      const memory = divided(table, decided);
      const inEffect = (): string => JSON.stringify(withSizes(table, decided, memory), undefined, 2);
      const notes = new Map([['memory', memoryLines(memory)]]);
      const inYaml = async (): Promise<string> => {
        const { configAsYaml } = await import('./print-config.ts');
        return configAsYaml(table, decided, notes);
      };
      await writeOutput(withoutPasswords(options.json ? `${inEffect()}\n` : await inYaml()));
    });
  withSettings(config.command('check'), table)
    .description(
      `Check the settings of ${whose} and the files that they name, without a start. Exit code 2: wrong settings.`,
    )
    .action(async (options: Flags) => {
      const decided = configOf(table, options);
      const missing = table.missing(decided);
      if (missing !== undefined) throw new InvalidConfigError([missing]);
      readClusterKeys(decided.cluster.keyFile);
      checkTlsFiles(decided.tls);
      await checkAccess(decided.access);
      assertSecure(decided);
      const memory = memoryLines(divided(table, decided)).join('\n');
      const insecure = exposureOf(decided).map((problem) => `Insecure: ${problem}.\n`);
      const changes = withoutPasswords(changesOf(table, decided));
      await writeOutput(`The settings are valid.\n${insecure.join('')}${changes}${memory}\n`);
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

function divided<C>(table: SettingsTable<C>, config: C): MemoryDivision<string> {
  const memory = table.divide(config);
  if (memory.kind === 'refused') throw new InvalidConfigError([`memory: ${memory.problem}`]);
  return memory;
}

/** The settings with the sizes of the division. */
function withSizes<C>({ all }: SettingsTable<C>, config: C, { memory, parts }: MemoryDivision<string>): unknown {
  const sizes: Readonly<Record<string, number>> = { ...parts, memory };
  const decided: unknown = structuredClone(config);
  for (const { name, path } of all) {
    const holder = path.length === 1 ? decided : valueAt(decided, path.slice(0, -1));
    const size = sizes[name];
    if (isRecord(holder) && size !== undefined) holder[path.at(-1) ?? ''] = size;
  }
  return decided;
}
