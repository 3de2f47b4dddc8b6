// What the command line of a node is made of, for the command line of a proxy.

export { grpcSection, InvalidConfig } from '../config.ts';
export { bytes, choice, count, flag, ms, port, text } from '../config-fields.ts';
export { createLogger } from '../logging.ts';
export { configAsYaml } from './print-config.ts';
export { runProgram } from './run-program.ts';
export { configOf, type Flags, withSettings } from './setting-flags.ts';
export { type SettingsTable, settingsTable } from './settings.ts';
export { explainStartError } from './start-errors.ts';
export { untilSignal } from './until-signal.ts';
