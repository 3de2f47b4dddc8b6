import { type LeaseTasksRequest, limits, type QueueName } from '@taskmaster/proto';
import type { LeaseCommand } from '../../domain/commands.ts';
import { countAtMost, duration, leaseTime, pidOrNone, refuse, textAtMost, wholeNumber } from './checks.ts';
import { queueName } from './queue-names.ts';

/** Throws a `Refusal` unless the engine can take the lease as it is. */
export function parseLease(request: LeaseTasksRequest, workerAddress: string): LeaseCommand {
  const maxBytes = wholeNumber(request.maxBytes, { field: 'max_bytes' }, 0, limits.replyDataBytes);
  return {
    queues: parseQueues(request.queues),
    maxTasks: wholeNumber(request.maxTasks, { field: 'max_tasks' }, 1, limits.leaseTasks),
    leaseDurationMs: leaseTime(request.leaseDurationMs, { field: 'lease_duration_ms' }),
    maxPid: pidOrNone(request.maxPid, { field: 'max_pid' }),
    waitMs: duration(request.waitMs, { field: 'wait_ms' }, 0, limits.waitMs),
    worker: textAtMost(request.workerLabel, { field: 'worker_label' }, limits.workerLabelBytes),
    workerAddress,
    maxBytes: maxBytes === 0 ? limits.replyDataBytes : maxBytes,
  };
}

/** A queue named twice counts once, at its first place. */
function parseQueues(names: readonly string[]): QueueName[] {
  if (names.length === 0) refuse('EMPTY_REQUEST', { field: 'queues' }, 'is empty: name at least one queue');
  countAtMost(names.length, { field: 'queues' }, limits.leaseQueues);
  const queues = new Map<string, QueueName>();
  for (const [index, full] of names.entries()) {
    const queue = queueName(full, { list: 'queues', index, field: '' });
    const key = `${queue.group}#${queue.name}`;
    if (!queues.has(key)) queues.set(key, queue);
  }
  return [...queues.values()];
}
