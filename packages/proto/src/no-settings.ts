import { QueueSettings } from './gen/taskmaster/v1/queues.ts';

/** Settings of queues that set nothing. */
export const NO_SETTINGS: QueueSettings = QueueSettings.decode(new Uint8Array(0));
