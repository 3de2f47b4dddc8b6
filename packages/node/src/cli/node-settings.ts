import { type SettingsTable, settingsTable } from '@taskmaster/server/program';
import { configSchema, type NodeConfig } from '../config.ts';

/** Of a node. */
export const nodeSettings: SettingsTable<NodeConfig> = settingsTable(configSchema, 'a TaskMaster node');
