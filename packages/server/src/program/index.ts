export { readClusterKeys } from './cluster-keys.ts';
export { complain } from './complain.ts';
export { withConfigCommands } from './config-commands.ts';
export {
  AUTO,
  addresses,
  bytes,
  choice,
  chosenBytes,
  count,
  flag,
  LONGEST_TIMER_MS,
  ms,
  optionalText,
  port,
  text,
} from './config-fields.ts';
export {
  accessFields,
  auditSection,
  clusterFields,
  grpcSection,
  httpFields,
  InvalidConfigError,
  memoryField,
  tlsFields,
  WAITING_PART,
} from './config-sections.ts';
export { openConfiguredAccess } from './configured-access.ts';
export { assertSecure, warnOfExposure } from './exposure.ts';
export { limitConnections } from './limit-connections.ts';
export { type ConfigSources, loadConfig } from './load-config.ts';
export { createLogger } from './logging.ts';
export { logMemory } from './memory/report-memory.ts';
export { openTls } from './open-tls.ts';
export { runProgram } from './run-program.ts';
export { configOf, type Flags, withSettings } from './setting-flags.ts';
export { ONCE, type SettingsTable, settingsTable } from './settings.ts';
export { explainStartError } from './start-errors.ts';
export { untilSignal } from './until-signal.ts';
export { withoutPasswords } from './without-passwords.ts';
