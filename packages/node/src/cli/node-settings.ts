import { type SettingsTable, settingsTable } from '@taskmaster/server/program';
import { configSchema, divideNodeMemory, type NodeSettings } from '../config.ts';

/** The settings of a node. */
export const nodeSettings: SettingsTable<NodeSettings> = settingsTable(configSchema, 'a TaskMaster node', (settings) =>
  divideNodeMemory(settings),
);
