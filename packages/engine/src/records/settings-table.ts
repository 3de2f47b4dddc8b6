import type { QueueName } from '@taskmaster/proto';
import {
  DEFAULT_SETTINGS,
  decodeSettings,
  type QueueSettings,
  type SettingsRecord,
  settingsOf,
} from '../domain/queue-settings.ts';
import { RecordTable } from './record-table.ts';

/** The settings of queues, which are records of their group. */
export class SettingsTable {
  readonly records = new RecordTable<SettingsRecord>(decodeSettings);

  /** What applies to a queue. */
  of({ group, name }: QueueName): QueueSettings {
    const records = this.records.of(group);
    return records === undefined ? DEFAULT_SETTINGS : settingsOf(name, records.values());
  }
}
