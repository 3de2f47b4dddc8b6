// What the command line of a node is made of, for the command line of a proxy.

export { readClusterKeys } from '../cluster-keys.ts';
export { addresses, bytes, choice, count, flag, ms, optionalText, port, text } from '../config-fields.ts';
export { clusterFields, grpcSection, InvalidConfig } from '../config-sections.ts';
export { createLogger } from '../logging.ts';
export { boundMemory, type MemoryBounds } from './memory-bounds.ts';
export { configAsYaml } from './print-config.ts';
export { run } from './program.ts';
export { runProgram } from './run-program.ts';
export { configOf, type Flags, withSettings } from './setting-flags.ts';
export { type SettingsTable, settingsTable } from './settings.ts';
export { explainStartError } from './start-errors.ts';
export { untilSignal } from './until-signal.ts';
