import { NO_SETTINGS, type QueueSettings } from '@taskmaster/proto';
import type { Engine } from '../engine.ts';

/** Puts settings of the queues `group#pattern`. What they do not say comes from less specific ones. */
export const putSettings = (engine: Engine, queues: string, settings: Partial<QueueSettings>): Promise<void> =>
  engine.settings.put({ ...NO_SETTINGS, queues, ...settings });
