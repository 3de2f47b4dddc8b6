import { parseQueueName } from '@taskmaster/proto';
import type { LimitCommand, LimitUse, Unlimited } from '../domain/queue-limits.ts';
import type { Engine } from '../engine.ts';

/** Limits the queues `group#pattern`. */
export const limitQueues = (
  engine: Engine,
  queues: string,
  command: Partial<Omit<LimitCommand, 'queues'>>,
): Promise<LimitUse> =>
  engine.limits.limit({
    queues: parseQueueName(queues),
    by: 'ann',
    keys: '',
    maxLeased: 0,
    rate: undefined,
    ...command,
  });

export const unlimitQueues = (engine: Engine, queues: string, keys = ''): Promise<Unlimited> =>
  engine.limits.unlimit(parseQueueName(queues), keys);
