import { type Command, Option } from 'commander';
import { AUTO } from './config-fields.ts';
import { loadConfig } from './load-config.ts';
import type { Setting, SettingsTable } from './settings.ts';

/** Parsed options of commander. The flag of a setting has the name of the setting. */
export type Flags = Readonly<Record<string, unknown>>;

const sections: Readonly<Record<string, string>> = {
  access: 'Access:',
  cluster: 'Cluster:',
  router: 'Router:',
  engine: 'Engine:',
  store: 'Store:',
  grpc: 'gRPC:',
  http: 'HTTP:',
};

/** Adds a flag for every setting to a command. */
export function withSettings(command: Command, table: SettingsTable<unknown>): Command {
  command.option('--config <file>', 'YAML file of settings; the environment and flags override it');
  for (const setting of table.all) command.addOption(optionOf(setting));
  const program = rootOf(command).name();
  const example = table.all.find(({ path }) => path.length > 1);
  return command.addHelpText(
    'after',
    `
Each setting is also a line of the file and an environment variable: ${example?.flag} is ${example?.name}
and ${example?.env}. "${program} config print" prints a file with all settings.`,
  );
}

function optionOf({ flag, name, path, about, default: byDefault }: Setting): Option {
  const [section] = path;
  const shown =
    byDefault === '' || (Array.isArray(byDefault) && byDefault.length === 0) ? '' : ` Default: ${byDefault}.`;
  const option = new Option(`${flag} ${formOf(byDefault)}`, `${about}${shown}`);
  option.attributeName = () => name;
  return option.helpGroup((path.length > 1 && section !== undefined && sections[section]) || 'Settings:');
}

/** The form of the values of a setting, from its default. */
function formOf(byDefault: unknown): string {
  if (typeof byDefault === 'boolean') return '[true|false]';
  if (byDefault === AUTO) return '<size>';
  return typeof byDefault === 'number' ? '<number>' : '<text>';
}

function rootOf(command: Command): Command {
  return command.parent === null ? command : rootOf(command.parent);
}

/** The settings from flags, the environment and the file. @throws InvalidConfigError. */
export function configOf<C>(table: SettingsTable<C>, options: Flags): C {
  const flags = new Map<string, string>();
  for (const { name } of table.all) {
    const value = options[name];
    // A flag without a value means true.
    if (value === true) flags.set(name, 'true');
    else if (typeof value === 'string') flags.set(name, value);
  }
  return loadConfig(table, {
    file: typeof options.config === 'string' ? options.config : undefined,
    env: process.env,
    flags,
  });
}
