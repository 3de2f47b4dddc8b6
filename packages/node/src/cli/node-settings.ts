import { type SettingsTable, settingsTable } from '@taskmaster/server/program';
import { configSchema, type NodeConfig } from '../config.ts';

/** The settings of a node. */
export const nodeSettings: SettingsTable<NodeConfig> = settingsTable(configSchema, 'a TaskMaster node');
