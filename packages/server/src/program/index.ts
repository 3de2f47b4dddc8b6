export { readClusterKeys } from './cluster-keys.ts';
export { withConfigCommands } from './config-commands.ts';
export {
  addresses,
  bytes,
  choice,
  count,
  flag,
  GIB,
  LONGEST_TIMER_MS,
  MIB,
  ms,
  optionalText,
  port,
  text,
} from './config-fields.ts';
export { clusterFields, grpcSection, InvalidConfigError } from './config-sections.ts';
export { type ConfigSources, loadConfig } from './load-config.ts';
export { createLogger } from './logging.ts';
export { configAsYaml } from './print-config.ts';
export { runProgram } from './run-program.ts';
export { configOf, type Flags, withSettings } from './setting-flags.ts';
export { type SettingsTable, settingsTable } from './settings.ts';
export { explainStartError } from './start-errors.ts';
export { untilSignal } from './until-signal.ts';
