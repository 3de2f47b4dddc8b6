import { type Command, Option } from 'commander';
import { loadConfig } from './load-config.ts';
import type { Setting, SettingsTable } from './settings.ts';

/** Options as commander gives them: the flags of settings under their names. */
export type Flags = Readonly<Record<string, unknown>>;

const sections: Readonly<Record<string, string>> = {
  cluster: 'Cluster:',
  engine: 'Engine:',
  store: 'Store:',
  grpc: 'gRPC:',
  http: 'HTTP:',
};

/** Gives a command a flag for every setting. */
export function withSettings(command: Command, table: SettingsTable<unknown>): Command {
  command.option('--config <file>', 'YAML file of settings; the environment and flags win over it');
  for (const setting of table.all) command.addOption(optionOf(setting));
  const program = rootOf(command).name();
  const example = table.all.find(({ path }) => path.length > 1);
  return command.addHelpText(
    'after',
    `
Every setting is also a line of the file and a variable of the environment: ${example?.flag} is ${example?.name}
and ${example?.env}. "${program} config print" writes a file of all of them.`,
  );
}

function optionOf({ flag, name, path, about, default: byDefault }: Setting): Option {
  const [section] = path;
  const value = typeof byDefault === 'boolean' ? '[true|false]' : typeof byDefault === 'number' ? '<number>' : '<text>';
  const shown =
    byDefault === '' || (Array.isArray(byDefault) && byDefault.length === 0) ? '' : ` Default: ${byDefault}.`;
  const option = new Option(`${flag} ${value}`, `${about}${shown}`);
  option.attributeName = () => name;
  return option.helpGroup((path.length > 1 && section !== undefined && sections[section]) || 'Settings:');
}

function rootOf(command: Command): Command {
  return command.parent === null ? command : rootOf(command.parent);
}

/** The settings that a command line decides. Throws `InvalidConfigError`. */
export function configOf<C>(table: SettingsTable<C>, options: Flags): C {
  const flags = new Map<string, string>();
  for (const { name } of table.all) {
    const value = options[name];
    // A flag of yes and no may stand alone.
    if (value === true) flags.set(name, 'true');
    else if (typeof value === 'string') flags.set(name, value);
  }
  return loadConfig(table, {
    file: typeof options.config === 'string' ? options.config : undefined,
    env: process.env,
    flags,
  });
}
