import { configSchema } from '../config.ts';
import { settingsTable } from './settings.ts';

/** Of a node. */
export const nodeSettings = settingsTable(configSchema, 'a TaskMaster node');
