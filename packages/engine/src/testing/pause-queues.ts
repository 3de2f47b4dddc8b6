import { parseQueueName } from '@taskmaster/proto';
import type { PauseCommand, PauseRecord, Resumed } from '../domain/queue-pauses.ts';
import type { Engine } from '../engine.ts';

/** Pauses the queues `group#pattern`. */
export const pauseQueues = (
  engine: Engine,
  queues: string,
  command: Partial<Omit<PauseCommand, 'queues'>> = {},
): Promise<PauseRecord> =>
  engine.pauses.pause({
    queues: parseQueueName(queues),
    reason: 'maintenance',
    by: 'ann',
    durationMs: undefined,
    until: undefined,
    ...command,
  });

export const resumeQueues = (engine: Engine, queues: string): Promise<Resumed> =>
  engine.pauses.resume(parseQueueName(queues));
